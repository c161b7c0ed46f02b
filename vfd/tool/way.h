/* Steps of the doctor (exam.h): the path to the file, from its name to the reply. Each blocks. */
#ifndef XH_WAY_H
#define XH_WAY_H

#include "exam.h"

enum xh_state xh_doctor_name(struct doctor *d);
enum xh_state xh_doctor_connection(struct doctor *d);
enum xh_state xh_doctor_tls(struct doctor *d);
enum xh_state xh_doctor_credentials(struct doctor *d);
enum xh_state xh_doctor_redirects(struct doctor *d);
enum xh_state xh_doctor_reply(struct doctor *d);

#endif
