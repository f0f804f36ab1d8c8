// SPDX-License-Identifier: BSL-1.0
/// @file
/// Generated kernels on the host: their source is C++ too.
#pragma once

#include <echo/cuda/jit.hpp>

#include <catch2/catch.hpp>
#include <dlfcn.h>

#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

namespace support {

/// Sources, compiled as one unit; each is a function of (parameters, warp, warps).
class generated_library {
public:
    using function = void(const echo::cuda::jit::detail::parameters*, unsigned long long, unsigned long long);

    void add(const std::string& source) {
        const std::string n = std::to_string(count_++);
        text_ += "namespace k" + n + " {\n#define echo_fused echo_fused_" + n + "\n" + source +
                 "\n#undef echo_fused\n#undef ECHO_OPERANDS\n#undef ECHO_WIDTH\n#undef ECHO_THREADS\n}\n";
    }
    /// False if there is no compiler here.
    bool compile() {
        char folder[] = "/tmp/echo_source_XXXXXX";
        REQUIRE(mkdtemp(folder));
        const std::filesystem::path in(folder);
        {
            std::ofstream out(in / "kernels.cpp");
            out << "#include <math.h>\n#include <string.h>\n" << text_;
        }
        const char* named = std::getenv("CXX");
        const std::string compiler = named && *named ? named : "c++";
        if (std::system((compiler + " --version >/dev/null 2>&1").c_str()) != 0) return false;
        const std::string command = compiler +
                                    " -std=c++17 -O1 -ffp-contract=off -fPIC -shared -Wall -Wextra -Werror "
                                    "-Wno-unknown-pragmas -o " +
                                    (in / "kernels.so").string() + " " + (in / "kernels.cpp").string();
        const int status = std::system(command.c_str());
        if (status == 0) {
            handle_ = dlopen((in / "kernels.so").c_str(), RTLD_NOW | RTLD_LOCAL);
            std::filesystem::remove_all(in);
        }
        REQUIRE(status == 0);
        REQUIRE(handle_);
        return true;
    }
    function* at(std::size_t i) const {
        return reinterpret_cast<function*>(dlsym(handle_, ("echo_fused_" + std::to_string(i)).c_str()));
    }
    std::size_t size() const { return count_; }

private:
    std::string text_;
    std::size_t count_ = 0;
    void* handle_ = nullptr;
};

} // namespace support
