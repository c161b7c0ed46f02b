/* Keys of S3 from the metadata service of a container or of a cloud machine. It is asked where the option aws_metadata
 * says so, and for nothing else: nobody but this file makes a request to it. */
#ifndef XH_S3METADATA_H
#define XH_S3METADATA_H

struct xh_env;

/* For xh_s3_keys_find. The container's, if AWS_CONTAINER_CREDENTIALS_RELATIVE_URI or _FULL_URI is set, with the token
 * of AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE, or of AWS_CONTAINER_AUTHORIZATION_TOKEN; else the machine's (EC2's, version
 * 2). It lies on this machine or its link, or it is not asked; over no proxy; what it answers is followed nowhere.
 * Source: AWS SDKs and Tools Reference Guide, "Container credential provider", "IMDS credential provider". */
char *xh_s3_metadata_fetch(const struct xh_env *env, const char **why);

#endif
