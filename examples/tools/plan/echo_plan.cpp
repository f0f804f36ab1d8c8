// SPDX-License-Identifier: BSL-1.0
/// @file
/// `echo-plan`: the optimiser as a command, for graphs in files (`echo-plan --help`).

#include "command_line/print.hpp"
#include "format/output_file.hpp"
#include "format/write_plan.hpp"
#include "plan/completion.hpp"
#include "plan/diff.hpp"
#include "plan/dot.hpp"
#include "plan/front.hpp"
#include "plan/given_plan.hpp"
#include "plan/knee.hpp"
#include "plan/load.hpp"
#include "plan/memory_snapshot.hpp"
#include "plan/report.hpp"
#include "plan/report_folder.hpp"
#include "plan/summary.hpp"
#include "plan/trace.hpp"
#include "plan/unmet.hpp"

#include <exception>
#include <filesystem>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#if defined(__GLIBC__)
#include <malloc.h>
#endif

namespace {

using namespace echo::format;

/// What the exit status says.
enum status : int { success = 0, bad_input = 1, bad_usage = 2, budget_unmet = 3, has_grown = 4 };

struct outcome {
    std::vector<verified_plan> plans; ///< of every strategy, or of the chosen one
    std::size_t chosen = 0;           ///< the one that files are written of
};

/// Without a gradient nothing waits for anything: the graph is left as it is, unless a goal is named.
echo::strategy strategy_for(const options& asked, const loaded_graph& g) {
    const bool trains = !g.model || g.model->trains();
    return trains || asked.names_goal ? asked.how : echo::strategy::baseline;
}

outcome run(const options& asked, const loaded_graph& g, progress& line) {
    outcome all;
    if (!asked.given_plan.empty()) {
        all.plans.push_back(read_given(g, asked, line));
        return all;
    }
    if (!asked.compare) {
        all.plans.push_back(run_pass(g, asked, strategy_for(asked, g), line));
        return all;
    }
    const auto add = [&](echo::strategy how) {
        if (how == asked.how) all.chosen = all.plans.size();
        all.plans.push_back(run_pass(g, asked, how, line));
        all.plans.back().extras.strategy = name_of(how);
    };
    add(echo::strategy::budget);
    for (const auto how : echo::all_strategies) add(how);
    return all;
}

/// Errors: weights in other files would not be found from the folder of the file that is to be written.
void check_folder(const options& asked, const onnx_model& model) {
    const auto folder = [](const std::string& file) {
        const auto parent = std::filesystem::path(file).parent_path();
        return parent.empty() ? std::string(".") : parent.string();
    };
    const bool streams = is_stream(asked.onnx_file) || is_stream(asked.graph);
    if (!model.has_external_data() || (!streams && same_file(folder(asked.onnx_file), folder(asked.graph))))
        return;
    throw file_error({}, asked.onnx_file, "the weights lie in files beside the model",
                     "write into the folder of the model");
}

/// Files on their way: all of them get their names, or none is left.
class output_files {
public:
    explicit output_files(progress& line) : line_(line) {}

    template <class Write>
    void add(const char* stage, const std::string& path, const Write& write) {
        if (path.empty()) return;
        line_.stage(stage);
        files_.push_back(std::make_unique<output_file>(path));
        write([this, file = files_.back().get()](std::string_view bytes) {
            file->write(bytes);
            line_.add_bytes(bytes.size());
        });
        files_.back()->finish();
    }
    void commit() {
        for (const auto& file : files_) file->commit();
    }

private:
    progress& line_;
    std::vector<std::unique_ptr<output_file>> files_;
};

void write_plan_file(const byte_sink& sink, const loaded_graph& g, const verified_plan& made) {
    report_extras extras = made.extras;
    extras.strategy = {}; // stands beside the report already
    write_plan(sink, g.snapshot, document(g.snapshot, made.plan, made.arena, g.name),
               report_text(made.plan.report(), extras, " "));
}

/// Returns why a written model was not checked.
std::string write_files(const options& asked, const loaded_graph& g, const verified_plan& made,
                        progress& line) {
    const echo::schedule& steps = made.plan.steps();
    std::string unchecked;
    output_files files(line);
    files.add("writing the plan", asked.plan_file,
              [&](const byte_sink& sink) { write_plan_file(sink, g, made); });
    files.add("writing the model", asked.onnx_file, [&](const byte_sink& sink) {
        check_folder(asked, *g.model);
        const written_model model = g.model->write(g.snapshot, steps);
        sink(model.bytes);
        unchecked = model.unchecked;
    });
    files.add("writing the drawing", asked.dot_file,
              [&](const byte_sink& sink) { write_dot(sink, g.snapshot, steps); });
    files.add("writing the trace", asked.trace_file,
              [&](const byte_sink& sink) { write_trace(sink, g.snapshot, steps, made.plan.report().link); });
    files.add("writing the snapshot", asked.snapshot_file,
              [&](const byte_sink& sink) { write_memory_snapshot(sink, g.snapshot, steps, made.arena); });
    std::optional<report_folder> report;
    if (!asked.report_dir.empty()) {
        report.emplace(asked.report_dir);
        report->write(report_page(g, asked, made, line));
    }
    const signals_wait until_all_are_named;
    files.commit();
    if (report) report->commit();
    return unchecked;
}

std::string shown(const options& asked, const loaded_graph& g, const outcome& all) {
    if (asked.compare && asked.json) {
        std::string array = "[";
        for (std::string_view comma; const auto& made : all.plans) {
            array += std::string(comma) + "\n " + report_text(made.plan.report(), made.extras, " ");
            comma = ",";
        }
        return array + "\n]\n";
    }
    if (asked.compare) return comparison(asked, all.plans);
    const verified_plan& made = all.plans.front();
    return asked.json ? report_text(made.plan.report(), made.extras) + '\n' : summary(g, asked, made);
}

int complain(std::string_view about, std::string_view message) {
    print_error("echo-plan", std::string(about) + std::string(message));
    return bad_input;
}

int run(const options& asked) {
    const std::string about = shown_input(asked.graph) + ": ";
    std::optional<progress> line(std::in_place, !asked.quiet);
    try {
        const loaded_graph g = load(asked, *line);
        if (!g.unmatched.empty()) {
            line.reset();
            for (const auto& pattern : g.unmatched)
                complain(about, fmt::format("warning: --keep {} matches no node and no layer", pattern));
            line.emplace(!asked.quiet);
        }
        if (asked.pareto || asked.knee) {
            const std::string shown = asked.knee ? run_knee(g, asked, *line) : run_front(g, asked, *line);
            line.reset();
            print(shown);
            return success;
        }
        const outcome all = run(asked, g, *line);
        const std::string unchecked = write_files(asked, g, all.plans[all.chosen], *line);
        line.reset();
        if (!unchecked.empty()) complain(asked.onnx_file + ": ", "warning: not checked: " + unchecked);
        if (asked.prints) print(shown(asked, g, all));
        const echo::plan& made = all.plans[all.chosen].plan;
        if (made.met()) return success;
        complain(about, why_unmet(g.snapshot, made.report()));
        return budget_unmet;
    } catch (const std::bad_alloc&) {
        line.reset();
        return complain(about, "not enough memory for a graph of this size");
    } catch (const file_error& e) {
        line.reset();
        return complain("", e.what());
    } catch (const std::exception& e) {
        line.reset();
        return complain(about, e.what());
    }
}

int run(const diff_options& asked) {
    std::optional<progress> line(std::in_place, !asked.planning.quiet);
    try {
        const std::string why = run_diff(asked, line);
        if (why.empty()) return success;
        complain("", why);
        return has_grown;
    } catch (const std::bad_alloc&) {
        line.reset();
        return complain("", "not enough memory for graphs of this size");
    } catch (const std::exception& e) {
        line.reset();
        return complain("", e.what());
    }
}

/// Blocks of 4 MiB and more go back to the system as soon as they are free. By default glibc does so with the first of
/// them alone, and keeps the others in its heap, where they leave gaps.
void give_back_large_blocks() {
#if defined(__GLIBC__)
    mallopt(M_MMAP_THRESHOLD, 4 << 20);
#endif
}

} // namespace

int main(int count, char** arguments) {
    give_back_large_blocks();
    const bool compares = count > 1 && std::string_view(arguments[1]) == "diff";
    try {
        if (compares) {
            const diff_options asked = parse_diff(count, arguments, complete_plan);
            if (asked.print.empty()) return run(asked);
            print(asked.print);
            return success;
        }
        const options asked = parse_options(count, arguments, complete_plan);
        if (asked.print.empty()) return run(asked);
        print(asked.print);
        return success;
    } catch (const usage_error& e) {
        complain("", std::string(e.what()) +
                         (compares ? "; see echo-plan diff --help" : "; see echo-plan --help"));
        return bad_usage;
    } catch (const std::exception& e) {
        return complain("", e.what());
    }
}
