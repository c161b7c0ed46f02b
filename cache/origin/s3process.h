/* Runs the program that prints keys of S3: a profile's credential_process. */
#ifndef XH_S3PROCESS_H
#define XH_S3PROCESS_H

#define XH_S3_PRINTED_BYTES 65536u /* longest text with keys, of a program or a metadata service */

/* Runs |command|, which is taken apart in place, without a shell, in the environment |env|, for |most_ms| at most.
 * Returns what it printed, or NULL with |*why|, a static text. Owns: the caller gives it to xh_wipe(). Blocks. */
char *xh_s3_process_run(char *command, char *const *env, unsigned most_ms, const char **why);

#endif
