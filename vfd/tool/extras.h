/* Steps of the doctor (exam.h): the sidecars, and whether the file can be changed. Each blocks. */
#ifndef XH_EXTRAS_H
#define XH_EXTRAS_H

#include "exam.h"

enum xh_state xh_doctor_beside(struct doctor *d);
enum xh_state xh_doctor_writing(struct doctor *d);

#endif
