// Assertions of the design end a run like any other error (VL_USER_STOP, VL_USER_FATAL). A driver includes this once.

#pragma once

#include <stdexcept>
#include <string>

#include "verilated.h"

void vl_stop(const char* file, int line, const char* scope) {
    throw std::runtime_error(std::string("assertion failed in ") + scope + " at " + file + ":" + std::to_string(line));
}
void vl_fatal(const char* file, int line, const char*, const char* message) {
    throw std::runtime_error(std::string(message) + " at " + file + ":" + std::to_string(line));
}
