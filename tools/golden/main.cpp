// gradkern-golden: expected values of every operator, suites of them, and verdicts on other people's results.
//
// Exit codes: 0 all is well; 1 a result was refused, nothing was judged, or a list and what it makes differ; 2 the command
// line is wrong; 3 a file is missing or damaged, or a problem is not valid.
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iostream>
#include <mutex>
#include <new>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>

#include <gradkern/cpu.hpp>
#include <gradkern/version.hpp>

#include "compute.hpp"
#include "generate.hpp"
#include "judge.hpp"
#include "npy.hpp"
#include "problem.hpp"
#include "tensor.hpp"

namespace golden {
namespace {

namespace fs = std::filesystem;

enum exit_code : int { good = 0, refused = 1, wrong_command = 2, wrong_file = 3 };

/// What all commands take.
struct common_options {
    std::string only{};
    std::size_t every = 1;
    unsigned jobs = 1;
    bool quiet = false;
};

/// A bar on the terminal; nothing where standard error is none.
class progress {
public:
    progress(std::size_t total, bool quiet) : total_(total), shown_(!quiet && isatty(STDERR_FILENO) != 0) {}
    ~progress() { clear(); }
    progress(const progress&) = delete;
    progress& operator=(const progress&) = delete;

    void step(const std::string& name) {
        ++done_;
        if (!shown_) return;
        const std::size_t full = done_ * 30 / total_;
        std::cerr << "\r[" << std::string(full, '#') << std::string(30 - full, ' ') << "] " << done_ << "/" << total_
                  << " " << name << "\x1b[K" << std::flush;
    }
    /// Takes the bar away, so that a line can be printed.
    void clear() const {
        if (shown_) std::cerr << "\r\x1b[K" << std::flush;
    }

private:
    std::size_t total_;
    std::size_t done_ = 0;
    bool shown_;
};

/// The outcome of a problem: an exit code, and lines for standard output and standard error.
struct outcome {
    int code = good;
    std::string out{};
    std::string err{};
};

/// Calls work(problem) for all problems, some at once. Prints what they say in their order. One that fails does not stop the
/// others. Returns the largest exit code.
int for_each_problem(std::vector<problem>& problems, const common_options& common,
                     const std::function<outcome(problem&)>& work) {
    progress bar(problems.size(), common.quiet);
    std::vector<outcome> outcomes(problems.size());
    std::vector<bool> done(problems.size());
    std::size_t printed = 0;
    int code = good;
    std::mutex mutex;
    std::atomic<std::size_t> next{0};
    const auto worker = [&] {
        for (std::size_t i = next++; i < problems.size(); i = next++) {
            outcome o;
            try {
                o = work(problems[i]);
            } catch (const std::bad_alloc&) {
                o = {wrong_file, "", "error: " + problems[i].name + ": not enough memory\n"};
            } catch (const std::exception& e) {
                o = {wrong_file, "", std::string("error: ") + e.what() + "\n"};
            }
            const std::lock_guard lock(mutex);
            outcomes[i] = std::move(o);
            done[i] = true;
            bar.step(problems[i].name);
            for (; printed < problems.size() && done[printed]; ++printed) {
                const outcome& p = outcomes[printed];
                code = std::max(code, p.code);
                if (p.out.empty() && p.err.empty()) continue;
                bar.clear();
                std::cout << p.out << std::flush;
                std::cerr << p.err << std::flush;
            }
        }
    };
    std::vector<std::thread> threads;
    for (unsigned j = 1; j < common.jobs; ++j) threads.emplace_back(worker);
    worker();
    for (std::thread& t : threads) t.join();
    return code;
}

/// The problems that --only and --every leave. `from` is where they are from.
[[nodiscard]] std::vector<problem> chosen(const std::vector<problem>& all, const common_options& common,
                                          const std::string& from) {
    if (all.empty()) throw failure(from + ": has no problems");
    std::vector<problem> some;
    std::size_t matching = 0;
    for (const problem& p : all)
        if (p.name.find(common.only) != std::string::npos && matching++ % common.every == 0) some.push_back(p);
    if (some.empty()) throw failure(from + ": there is no problem whose name contains \"" + common.only + "\"");
    return some;
}

/// The JSON file that a command line names: itself, or that of a suite's directory.
[[nodiscard]] fs::path list_of(const std::string& name) {
    return fs::is_directory(name) ? fs::path(name) / "suite.json" : fs::path(name);
}

/// The inputs of a problem from files. An optional input is read if the problem gives its shape or no shapes at all.
[[nodiscard]] tensors read_inputs(const problem& p, const fs::path& directory) {
    tensors inputs;
    for (const role& r : p.inputs()) {
        const fs::path file = file_of(directory, p, r.name);
        if (r.optional && !p.shapes.contains(r.name) && (!p.shapes.empty() || !fs::exists(file))) continue;
        inputs.emplace(r.name, read_npy(file, p.type_of(r)));
    }
    return inputs;
}

void write_tensors(const fs::path& directory, const problem& p, const tensors& all) {
    for (const auto& [name, t] : all) write_npy(file_of(directory, p, name), t);
}

// ----------------------------------------------------------------------------------------------------------------- run

struct run_options {
    std::vector<std::string> problems{};
    std::string inputs{}, results{}, exact{}, bounds{};
};

int run_command(const run_options& options, const common_options& common) {
    if (options.results.empty() && options.exact.empty() && options.bounds.empty())
        throw CLI::RequiredError("one of --results, --exact and --bounds");
    int code = good;
    for (const std::string& name : options.problems) {
        const fs::path file = list_of(name);
        std::vector<problem> problems = chosen(read_problems(file), common, file.string());
        fs::path directory = options.inputs;
        if (directory.empty())
            directory =
                fs::is_directory(file.parent_path() / "inputs") ? file.parent_path() / "inputs" : file.parent_path();
        code = std::max(code, for_each_problem(problems, common, [&](problem& p) {
                            const tensors inputs = read_inputs(p, directory);
                            complete_shapes(p, inputs);
                            if (!options.results.empty()) write_tensors(options.results, p, results(p, inputs));
                            if (options.exact.empty() && options.bounds.empty()) return outcome{};
                            const expectation e = expected(p, inputs);
                            if (!options.exact.empty()) write_tensors(options.exact, p, e.exact);
                            if (!options.bounds.empty()) write_tensors(options.bounds, p, e.bounds);
                            return outcome{};
                        }));
    }
    return code;
}

// ------------------------------------------------------------------------------------------------------------ generate

struct generate_options {
    std::string directory{}, from{}, list{};
    std::vector<std::string> operators{"all"}, types{"all"}, layouts{"ncx", "nxc"}, sizes{"small"};
    std::size_t count = 10;
    std::uint64_t seed = 1;
};

/// The numbers of words in a list of words; "all" is each of them.
template <class T>
[[nodiscard]] std::vector<T> numbers_of(const std::vector<std::string>& words, const std::vector<std::string>& known,
                                        const std::vector<T>& values, const char* option) {
    std::vector<T> found;
    for (const std::string& word : words) {
        if (word == "all") {
            found = values;
            continue;
        }
        const auto at = std::find(known.begin(), known.end(), word);
        if (at == known.end()) {
            std::string expected;
            for (const std::string& k : known) expected += ", " + k;
            throw CLI::ValidationError(option, "\"" + word + "\", expected all" + expected);
        }
        const T value = values[static_cast<std::size_t>(at - known.begin())];
        if (std::find(found.begin(), found.end(), value) == found.end()) found.push_back(value);
    }
    return found;
}

[[nodiscard]] generate_request request_of(const generate_options& options) {
    std::vector<std::string> operator_names, type_names;
    std::vector<op> ops;
    std::vector<element> types;
    std::vector<std::string> asked;
    for (const std::string& word : options.operators) {
        if (word != "gradients") asked.push_back(word);
        for (const operator_facts& f : golden::operators())
            if (word == "gradients" && f.is_gradient) asked.emplace_back(f.name);
    }
    for (const operator_facts& f : golden::operators()) {
        operator_names.emplace_back(f.name);
        ops.push_back(f.id);
    }
    for (const element_facts& f : elements) {
        if (!f.computes) continue;
        type_names.emplace_back(f.name);
        types.push_back(f.type);
    }
    return {.operators = numbers_of(asked, operator_names, ops, "--operators"),
            .types = numbers_of(options.types, type_names, types, "--types"),
            .layouts = numbers_of<gk::data_format>(options.layouts, {"nxc", "ncx"},
                                                   {gk::data_format::nxc, gk::data_format::ncx}, "--layouts"),
            .sizes = numbers_of<size_class>(options.sizes, {"small", "medium", "large"},
                                            {size_class::small, size_class::medium, size_class::large}, "--sizes"),
            .count = options.count,
            .seed = options.seed};
}

int generate_command(const generate_options& options, const common_options& common) {
    if (options.directory.empty() && options.list.empty()) throw CLI::RequiredError("DIRECTORY or --list");
    std::vector<problem> problems = options.from.empty() ? chosen(generate(request_of(options)), common, "generate")
                                                         : chosen(read_problems(options.from), common, options.from);
    const fs::path directory = options.directory;
    std::set<std::string> made;
    std::mutex mutex;
    const int code = for_each_problem(problems, common, [&](problem& p) {
        if (!p.values) throw failure(p.name + ": has no values");
        complete_shapes(p, {});
        const tensors inputs = make_inputs(p);
        const expectation e = expected(p, inputs);
        if (!options.directory.empty()) {
            write_tensors(directory / "inputs", p, inputs);
            write_tensors(directory / "expected", p, e.exact);
            write_tensors(directory / "bounds", p, e.bounds);
        }
        const std::string input_hash = hash_of(inputs, p.inputs());
        const std::string expected_hash = hash_of(e.exact, p.facts().outputs);
        const bool same = p.input_hash.empty() || (p.input_hash == input_hash && p.expected_hash == expected_hash);
        const char* const what = p.input_hash == input_hash ? "expected values" : "inputs";
        p.input_hash = input_hash;
        p.expected_hash = expected_hash;
        const std::lock_guard lock(mutex);
        made.insert(p.name);
        return same ? outcome{}
                    : outcome{refused, "", p.name + ": its " + what + " have another hash than in the list\n"};
    });
    const std::size_t wanted = problems.size();
    std::erase_if(problems, [&](const problem& p) { return !made.contains(p.name); });
    if (problems.empty()) return code;
    json about{{"format", "gradkern-golden 1"}, {"count", problems.size()}};
    if (options.from.empty()) about["seed"] = options.seed;
    about["bf16"] = "bit patterns as uint16, as ml_dtypes views them";
    if (!options.directory.empty()) write_problems(directory / "suite.json", problems, about);
    if (!options.list.empty()) write_problems(options.list, problems, about);
    if (!common.quiet) {
        std::cout << problems.size();
        if (problems.size() != wanted) std::cout << " of " << wanted;
        std::cout << " problems\n";
    }
    return code;
}

// -------------------------------------------------------------------------------------------------------------- verify

struct verify_options {
    std::string suite{}, results{}, exact{}, bounds{}, report{};
    bool skip_missing = false;
};

/// Where the files are.
struct verify_places {
    fs::path exact, bounds, results;
};

/// What is said of a problem, or of one of its outputs.
enum class judgement : std::uint8_t { pass, fail, skip, unjudged, error };
constexpr std::array<std::string_view, 5> judgement_words{"pass", "fail", "skip", "unjudged", "error"};
[[nodiscard]] constexpr std::string_view word_of(judgement j) { return judgement_words[static_cast<std::size_t>(j)]; }

/// A number of a report. JSON has no others than finite ones: these are texts.
[[nodiscard]] json number(double v) {
    return std::isfinite(v) ? json(v) : json(std::isnan(v) ? "nan" : v > 0 ? "inf" : "-inf");
}
/// The members of a report on the largest |result - exact| / bound; nothing was judged if there is none.
void put_worst(json& row, const std::optional<double>& worst) {
    row["worst"] = worst && std::isfinite(*worst) ? json(*worst) : json();
    row["worst_is_infinite"] = worst && !std::isfinite(*worst);
}

/// An output that was looked at.
struct output_finding {
    role output{};
    sizes shape{};
    judgement said = judgement::pass;
    std::optional<verdict> found{};  ///< of a file that has the right shape and type
    std::string message{};           ///< of one that fails

    [[nodiscard]] std::optional<double> worst() const {
        return found && found->judged() != 0 ? std::optional(found->worst) : std::nullopt;
    }
};

/// The verdict on a problem.
struct finding {
    judgement said = judgement::pass;
    std::vector<output_finding> outputs{};
    std::string error{};  ///< why it could not be judged
};

[[nodiscard]] output_finding verify_output(const problem& p, const role& r, const verify_places& places,
                                           bool skip_missing) {
    const tensor exact = read_npy(file_of(places.exact, p, r.name), r.is_index ? element::i64 : element::f64);
    const fs::path limits_file = file_of(places.bounds, p, r.name);
    const tensor limits = read_npy(limits_file, element::f64);
    if ((p.shapes.contains(r.name) && exact.shape != p.shape_of(r.name)) || limits.shape != exact.shape)
        throw failure(p.name + ": the suite's " + r.name + " has another shape than its problem says");
    output_finding f{.output = r, .shape = exact.shape};
    const fs::path file = file_of(places.results, p, r.name);
    if (fs::is_directory(file)) throw failure(file.string() + ": is a directory, expected a file");
    if (!fs::exists(file)) {
        f.said = skip_missing ? judgement::skip : judgement::fail;
        if (!skip_missing) f.message = file.string() + ": there is no such file";
        return f;
    }
    tensor result;
    try {  // somebody else's file: a verdict, not an error
        result = read_npy(file, p.type_of(r));
    } catch (const failure& e) {
        f.said = judgement::fail;
        f.message = e.what();
        return f;
    }
    if (result.shape != exact.shape) {
        f.said = judgement::fail;
        f.message = file.string() + ": has the shape " + text_of(result.shape) + ", expected " + text_of(exact.shape);
        return f;
    }
    try {
        f.found = judge(result, exact, limits);
    } catch (const failure& e) {
        throw failure(limits_file.string() + ": " + e.what());
    }
    f.said = !f.found->passes() ? judgement::fail : f.found->is_unjudged() ? judgement::unjudged : judgement::pass;
    if (f.said == judgement::fail) f.message = text_of(*f.found, r.name, exact.shape);
    return f;
}

[[nodiscard]] finding verify(const problem& p, const verify_places& places, bool skip_missing) {
    finding f;
    try {
        for (const role& r : p.wanted_outputs()) f.outputs.push_back(verify_output(p, r, places, skip_missing));
    } catch (const std::bad_alloc&) {
        f.error = p.name + ": not enough memory";
    } catch (const std::exception& e) {
        f.error = e.what();
    }
    const auto any = [&](judgement j) {
        return std::any_of(f.outputs.begin(), f.outputs.end(), [&](const output_finding& o) { return o.said == j; });
    };
    f.said = !f.error.empty()           ? judgement::error
             : any(judgement::fail)     ? judgement::fail
             : any(judgement::pass)     ? judgement::pass
             : any(judgement::unjudged) ? judgement::unjudged
                                        : judgement::skip;
    return f;
}

/// A problem in a report.
[[nodiscard]] json row_of(const problem& p, const finding& f) {
    json row{{"name", p.name}, {"verdict", word_of(f.said)}};
    const json about = json_of(p);
    for (const char* member : {"operator", "type", "types", "shapes", "attributes", "options", "made_by"})
        if (about.contains(member)) row[member] = about[member];
    if (!row.contains("attributes")) row["attributes"] = json::object();
    row["pattern"] = p.values ? json(gk::test::name_of(p.values->pattern)) : json();
    std::optional<double> worst;
    json messages = json::array(), outputs = json::array();
    if (!f.error.empty()) messages.push_back(f.error);
    for (const output_finding& o : f.outputs) {
        if (const auto w = o.worst()) worst = std::max(worst.value_or(0), *w);
        if (!o.message.empty()) messages.push_back(o.message);
        json out{{"name", o.output.name},
                 {"verdict", word_of(o.said)},
                 {"type", facts_of(p.type_of(o.output)).name},
                 {"shape", o.shape},
                 {"elements", count_of(o.shape)}};
        for (const char* member : {"without_bound", "refused", "index", "got", "exact", "bound"}) out[member] = json();
        put_worst(out, o.worst());
        if (o.found) {
            out["without_bound"] = o.found->without_bound;
            out["refused"] = o.found->refused;
        }
        if (o.worst()) {
            out["index"] = index_of(o.found->worst_at, o.shape);
            out["got"] = number(o.found->result);
            out["exact"] = number(o.found->exact);
            out["bound"] = number(o.found->bound);
        }
        outputs.push_back(std::move(out));
    }
    put_worst(row, worst);
    row["messages"] = messages;
    row["outputs"] = outputs;
    return row;
}

/// What is printed of a problem: failures and errors, and, unless that is too much, what was not judged.
[[nodiscard]] outcome outcome_of(const problem& p, const finding& f, bool quiet) {
    outcome o;
    if (!f.error.empty()) o = {wrong_file, "", "error: " + f.error + "\n"};
    if (f.said == judgement::fail) o.code = refused;
    std::string skipped;
    for (const output_finding& out : f.outputs) {
        if (out.said == judgement::fail) o.out += "FAIL " + p.name + ": " + out.message + "\n";
        if (out.said == judgement::skip) skipped += (skipped.empty() ? "" : ", ") + out.output.name;
        if (out.said == judgement::unjudged && !quiet)
            o.out += "UNJUDGED " + p.name + ": " + out.output.name + ": none of " +
                     std::to_string(out.found->elements) + " elements has a bound\n";
    }
    if (!skipped.empty() && !quiet) o.out += "SKIP " + p.name + ": there is no file of " + skipped + "\n";
    return o;
}

/// What lies in the directory of results and is no tensor of any problem.
[[nodiscard]] std::vector<std::string> strangers(const std::vector<problem>& problems, const verify_options& options) {
    std::set<std::string> known;
    for (const problem& p : problems)
        for (const auto& list : {p.inputs(), p.wanted_outputs()})
            for (const role& r : list) known.insert(file_of("", p, r.name).string());
    std::error_code ignored;
    std::vector<std::string> found;
    for (const fs::directory_entry& entry : fs::directory_iterator(options.results)) {
        const std::string name = entry.path().filename().string();
        if (!known.contains(name) && !fs::equivalent(entry.path(), options.report, ignored)) found.push_back(name);
    }
    std::sort(found.begin(), found.end());
    return found;
}

int verify_command(const verify_options& options, const common_options& common) {
    if (!fs::is_directory(options.results)) throw failure(options.results + ": there is no such directory");
    const fs::path list = list_of(options.suite);
    const std::vector<problem> all = read_problems(list);
    std::vector<problem> problems = chosen(all, common, list.string());
    const verify_places places{options.exact.empty() ? list.parent_path() / "expected" : fs::path(options.exact),
                               options.bounds.empty() ? list.parent_path() / "bounds" : fs::path(options.bounds),
                               options.results};
    const std::vector<std::string> unknown = strangers(all, options);
    constexpr std::size_t most = 10;
    for (std::size_t i = 0; i < std::min(unknown.size(), most); ++i)
        std::cerr << "warning: " << (fs::path(options.results) / unknown[i]).string()
                  << ": belongs to no output of a problem\n";
    if (unknown.size() > most) std::cerr << "warning: so do " << unknown.size() - most << " others\n";

    json rows = json::array();
    std::array<std::size_t, judgement_words.size()> counts{};
    const auto count = [&](judgement j) -> std::size_t& { return counts[static_cast<std::size_t>(j)]; };
    std::mutex mutex;
    int code = for_each_problem(problems, common, [&](problem& p) {
        const finding f = verify(p, places, options.skip_missing);
        json row = row_of(p, f);
        const std::lock_guard lock(mutex);
        ++count(f.said);
        rows.push_back(std::move(row));
        return outcome_of(p, f, common.quiet);
    });
    std::sort(rows.begin(), rows.end(), [](const json& a, const json& b) { return a["name"] < b["name"]; });
    std::cout << count(judgement::pass) << " passed, " << count(judgement::fail) << " failed, "
              << count(judgement::skip) << " skipped, " << count(judgement::unjudged) << " unjudged";
    if (count(judgement::error) != 0) std::cout << ", " << count(judgement::error) << " errors";
    std::cout << " of " << problems.size() << "\n" << std::flush;
    if (count(judgement::pass) + count(judgement::fail) == 0) {
        std::cerr << "error: nothing was judged\n";
        code = std::max<int>(code, refused);
    }
    if (!options.report.empty()) {
        const json report{{"format", "gradkern-golden report 2"},
                          {"passed", count(judgement::pass)},
                          {"failed", count(judgement::fail)},
                          {"skipped", count(judgement::skip)},
                          {"unjudged", count(judgement::unjudged)},
                          {"errors", count(judgement::error)},
                          {"unknown_files", unknown},
                          {"problems", rows}};
        std::ofstream out(options.report);
        out << report.dump(1) << "\n";
        out.close();
        if (!out) throw failure(options.report + ": cannot be written");
    }
    return code;
}

// ------------------------------------------------------------------------------------------------------------- command

int command_line(int argc, char** argv) {
    CLI::App app{"Expected values of pools, convolutions and their gradients, and verdicts on results."};
    const int version[]{GRADKERN_VERSION_MAJOR, GRADKERN_VERSION_MINOR, GRADKERN_VERSION_PATCH};
    app.set_version_flag("--version", "gradkern-golden " + std::to_string(version[0]) + "." +
                                          std::to_string(version[1]) + "." + std::to_string(version[2]));
    app.require_subcommand(1);
    app.footer(
        "Exit codes: 0 all is well; 1 a result was refused, or nothing was judged; 2 the command line is wrong; 3 a "
        "file is\n"
        "missing or damaged, or a problem is not valid. docs/conformance.md describes problems and files.");
    common_options common;
    const auto add_common = [&](CLI::App* command) {
        command->add_option("--only", common.only, "only problems whose names contain this text");
        command->add_option("--every", common.every, "only the first of every N problems")->check(CLI::PositiveNumber);
        command->add_option("-j,--jobs", common.jobs, "problems at once")->check(CLI::Range(1, 256));
        command->add_flag("-q,--quiet", common.quiet,
                          "no progress bar, no summary of generate, and no lines on what verify did not judge");
    };
    run_options run;
    CLI::App* const run_app = app.add_subcommand("run", "Compute the outputs of problems");
    run_app->add_option("problems", run.problems, "JSON files, or directories of suites")->required();
    run_app->add_option("--inputs", run.inputs,
                        "directory of NAME.TENSOR.npy; default: inputs beside the JSON file, else where that is");
    run_app->add_option("--results", run.results, "directory for what gradkern computes");
    run_app->add_option("--exact", run.exact, "directory for exact outputs in f64");
    run_app->add_option("--bounds", run.bounds, "directory for the bounds of each element's error in f64");
    add_common(run_app);

    generate_options make;
    CLI::App* const make_app =
        app.add_subcommand("generate", "Write a suite: problems, inputs, expected values, bounds");
    make_app->add_option("directory", make.directory, "directory for the suite");
    make_app->add_option("--operators", make.operators, "names, all, or gradients")
        ->delimiter(',')
        ->capture_default_str();
    make_app->add_option("--types", make.types, "f32, f16, bf16, f64, or all")->delimiter(',')->capture_default_str();
    make_app->add_option("--layouts", make.layouts, "ncx, nxc, or all")->delimiter(',')->capture_default_str();
    make_app->add_option("--sizes", make.sizes, "small, medium, large, or all")->delimiter(',')->capture_default_str();
    make_app->add_option("--count", make.count, "problems of each operator and type")
        ->check(CLI::Range(1, 9999))
        ->capture_default_str();
    make_app->add_option("--seed", make.seed, "another seed gives other problems")->capture_default_str();
    make_app->add_option("--from", make.from, "make the problems of this list again, and compare their hashes")
        ->check(CLI::ExistingFile);
    make_app->add_option("--list", make.list, "also write the list of problems with their hashes here");
    add_common(make_app);

    verify_options check;
    CLI::App* const check_app = app.add_subcommand("verify", "Judge results by a suite");
    check_app->add_option("suite", check.suite, "a JSON file, or the directory of a suite")->required();
    check_app->add_option("results", check.results, "directory of NAME.TENSOR.npy")->required();
    check_app->add_option("--exact", check.exact, "directory of exact outputs; default: expected beside the JSON file");
    check_app->add_option("--bounds", check.bounds, "directory of bounds; default: bounds beside the JSON file");
    check_app->add_option("--report", check.report, "write all verdicts to this JSON file");
    check_app->add_flag("--skip-missing", check.skip_missing, "outputs without results are no failures");
    add_common(check_app);

    try {
        app.parse(argc, argv);
        if (*run_app) return run_command(run, common);
        if (*make_app) return generate_command(make, common);
        return verify_command(check, common);
    } catch (const CLI::ParseError& e) {
        return app.exit(e) == 0 ? good : wrong_command;
    }
}

}  // namespace
}  // namespace golden

int main(int argc, char** argv) {
    if (const char* const missing = gradkern::missing_cpu_feature()) {
        std::cerr << "error: this program needs a CPU with " << missing << '\n';
        return golden::wrong_file;
    }
    try {
        return golden::command_line(argc, argv);
    } catch (const std::exception& e) {
        std::cerr << "error: " << e.what() << '\n';
        return golden::wrong_file;
    }
}
