/* Steps of the doctor (exam.h): how the file's server answers, and how fast. Each blocks. */
#ifndef XH_HABITS_H
#define XH_HABITS_H

#include "exam.h"

enum xh_state xh_doctor_ranges(struct doctor *d);
enum xh_state xh_doctor_version(struct doctor *d);
enum xh_state xh_doctor_cache(struct doctor *d);
enum xh_state xh_doctor_round_trip(struct doctor *d);
enum xh_state xh_doctor_throughput(struct doctor *d);

#endif
