// SPDX-License-Identifier: BSL-1.0
/// @file
/// `echo-train`: trains the paper's models with and without Echo (`echo-train --help`).

#include "train/places.hpp"

#include <exception>
#include <new>

namespace {

using namespace train;

status run(const options& asked) {
    const std::string about = asked.model + ": ";
    try {
        if (asked.dry_run) return print_calls(asked);
        return asked.on == device::cuda ? train_on_cuda(asked) : train_on_cpu(asked);
    } catch (const usage_error&) {
        throw;
    } catch (const std::bad_alloc&) {
        return complain(about, "not enough memory; give a smaller --batch or --preset, or a --budget");
    } catch (const std::exception& e) {
        return complain(about, e.what());
    }
}

} // namespace

int main(int count, char** arguments) {
    try {
        const options asked = parse_options(count, arguments);
        if (asked.print.empty()) return run(asked);
        echo::format::print(asked.print);
        return success;
    } catch (const usage_error& e) {
        return complain("", std::string(e.what()) + "; see echo-train --help", bad_usage);
    } catch (const std::exception& e) {
        return complain("", e.what());
    }
}
