/* What the runtime uses of the C library, where the compiler brings none. */
#ifndef DEVICE_MATH_H
#define DEVICE_MATH_H

#define HUGE_VALF __builtin_huge_valf()
#define INFINITY __builtin_inff()
#define NAN __builtin_nanf("")
#define isnan(x) __builtin_isnan(x)
#define isinf(x) __builtin_isinf(x)
#define isfinite(x) __builtin_isfinite(x)
#define signbit(x) __builtin_signbit(x)

float atanf(float x);
double ceil(double x);
float ceilf(float x);
float cosf(float x);
float erfcf(float x);
float expf(float x);
float expm1f(float x);
double fabs(double x);
float fabsf(float x);
double floor(double x);
float floorf(float x);
float fmaxf(float x, float y);
float fminf(float x, float y);
double log(double x);
float log1pf(float x);
float logf(float x);
float powf(float x, float y);
double rint(double x);
float rintf(float x);
double round(double x);
float roundf(float x);
float sinf(float x);
float sqrtf(float x);
double tanh(double x);
float tanhf(float x);

#endif
