/* Ctrl-C in Python programs: see python.c. */
#ifndef XH_PYTHON_H
#define XH_PYTHON_H

/* Where the process has Python, waits end at Ctrl-C from now on. */
void xh_python_begin(void);

#endif
