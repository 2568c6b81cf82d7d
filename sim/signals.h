// Signals of the running design by name: those that watch.vlt keeps visible.
#pragma once

#include <string>

#include "verilated.h"
#include "verilated_sym_props.h"
#include "verilated_syms.h"

namespace adagp {

// The scope of a block of the accelerator ("control.issue"), or null.
inline const VerilatedScope* find_block(const VerilatedContext& context, const std::string& block) {
    return context.scopeFind(("top.adagp.accelerator." + block).c_str());
}

// A signal whose width T holds, or null. A name with dots is written "\\name ".
template <typename T>
const T* find_signal(const VerilatedContext& context, const std::string& block, const char* name) {
    const VerilatedScope* scope = find_block(context, block);
    const VerilatedVar* signal = scope ? scope->varFind(name) : nullptr;
    return signal && signal->entSize() == sizeof(T) ? static_cast<const T*>(signal->datap()) : nullptr;
}

// The name of a block's port: as given, or with a number after it if a part of the block has the same name.
inline std::string port_name(const VerilatedContext& context, const std::string& block, const std::string& name) {
    const VerilatedScope* scope = find_block(context, block);
    if (scope && scope->varsp())
        for (const auto& entry : *scope->varsp())
            if (std::string(entry.first).find(name + "$") < 2) return entry.first;
    return name;
}

}  // namespace adagp
