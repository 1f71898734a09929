// Statements of the requirements that a C program holds against a library: counts them, and prints a line for each one
// that does not hold.
#pragma once

#include <errno.h>
#include <stdio.h>

static int wrong, asked;

#define HOLDS(statement, condition) \
	do { \
		asked++; \
		if (!(condition)) { \
			wrong++; \
			printf("WRONG %s, line %d: %s (errno %d)\n", statement, __LINE__, #condition, errno); \
		} \
	} while (0)
