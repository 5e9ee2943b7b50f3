// What plans choose for the layers of the zoo, as a table: for each layer, operator, layout and type the path, the number of
// tasks and the bytes of workspace for one worker, and for eight where these are not those of one worker for each that has a
// task. Nothing is run.
//
//     choices --check TABLE ZOO     compares with the table and prints every row that differs
//     choices --write TABLE ZOO     writes the table: after a change that is meant, for its diff to be read
//
// There is one table per instruction set. A row stands for all types that are named in it.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <cases/zoo.hpp>
#include <gradkern/gradkern.hpp>

namespace {

using namespace gradkern;
using gradkern_cases::convolution_case;
using gradkern_cases::pool_case;

/// What was chosen, by types (in one order) and by "layer operator layout".
using rows = std::map<std::string, std::map<std::string, std::string>>;

constexpr const char* type_names[]{"f32", "f16", "bf16", "bf16 relaxed"};

/// What a line of describe() says that is a choice: not the operator in front, not numbers of blocks and the like, nor the
/// instruction set at the end.
std::string choice_of(std::string_view line) {
    std::string kept;
    line.remove_prefix(line.find(": ") + 2);
    for (std::size_t end = line.find(", "); end != std::string_view::npos; end = line.find(", ")) {
        const std::string_view part = line.substr(0, end);
        line.remove_prefix(end + 2);
        const auto is_number = [&](std::size_t at) {  // of its own, unlike the one in "bf16"
            return part[at] >= '0' && part[at] <= '9' && (at == 0 || part[at - 1] == ' ');
        };
        bool counts = false;
        for (std::size_t i = 0; i < part.size(); ++i) counts = counts || is_number(i);
        if (!counts || part.ends_with(" tasks")) kept += std::string(part) + ", ";
    }
    return kept;
}

/// What 64 workers need at most, whatever the layer of the zoo: a row that needs more differs from the table.
constexpr std::size_t most_bytes_of_64 = std::size_t{64} << 20;

/// Bytes of workspace for eight workers, if each that has a task takes as much as one alone.
std::size_t bytes_of_workers(std::size_t one, std::string_view choice) {
    constexpr std::size_t workers = 8;
    constexpr std::size_t alignment = 64;  // once, whatever the number of workers
    if (one < alignment) return one;
    const std::size_t end = choice.rfind(" tasks, ");
    const std::string_view before = choice.substr(0, end);
    const std::size_t tasks = std::strtoull(choice.data() + before.rfind(' ') + 1, nullptr, 10);
    return (one - alignment) * std::min(workers, tasks) + alignment;
}

class table {
public:
    /// Adds a row for the plan of a type.
    template <class Plan>
    void add(std::string_view layer, std::string_view op, data_format format, const char* type,
             const result<Plan>& plan) {
        std::string choice = "refused";
        if (plan) {
            std::string line(plan->describe({}), ' ');
            plan->describe(line);
            choice = choice_of(line);
            const std::size_t one = plan->workspace_bytes(1);
            const std::size_t eight = plan->workspace_bytes(8);
            const bool usual = eight == bytes_of_workers(one, choice);
            if (plan->workspace_bytes(64) > most_bytes_of_64) choice += "more than 64 MB for 64 workers, ";
            choice += std::to_string(one) + " bytes";
            if (!usual) choice += ", for 8 workers " + std::to_string(eight);
        }
        rows_[std::string(layer) + ' ' + std::string(op) + (format == data_format::ncx ? " NCX" : " NXC")][type] =
            choice;
    }
    [[nodiscard]] const rows& all() const { return rows_; }

private:
    rows rows_;
};

template <class T>
void add_convolution(table& t, const convolution_case& c, data_format f, const char* type, const plan_options& o) {
    const weights_format wf = f == data_format::ncx ? weights_format::oix : weights_format::xio;
    const extents src = c.src_shape(f);
    const extents dst = c.dst_shape(f);
    const extents w = c.weights_shape(wf);
    if (c.transposed) {
        const auto a = c.attributes<conv_transpose_attributes>(f, wf);
        t.add(c.name, "forward", f, type, plan_conv_transpose<T>(src, w, {}, a, dst, o));
        t.add(c.name, "backward_data", f, type, plan_conv_transpose_backward_data<T>(dst, w, a, src, o));
        t.add(c.name, "backward_weights", f, type, plan_conv_transpose_backward_weights<T>(src, dst, a, w, {}, o));
    } else {
        const auto a = c.attributes<convolution_attributes>(f, wf);
        t.add(c.name, "forward", f, type, plan_convolution<T>(src, w, {}, a, dst, o));
        t.add(c.name, "backward_data", f, type, plan_convolution_backward_data<T>(dst, w, a, src, o));
        t.add(c.name, "backward_weights", f, type, plan_convolution_backward_weights<T>(src, dst, a, w, {}, o));
    }
    if (o.precision == precision::strict)
        t.add(c.name, "bias_backward", f, type, plan_bias_backward<T>(dst, {.data_format = f}, {}, o));
}

template <class T>
void add_pool(table& t, const pool_case& c, data_format f, const char* type) {
    const extents src = c.src_shape(f);
    const extents dst = c.dst_shape(f);
    if (!c.maximum) {
        const auto a = c.attributes<avg_pool_attributes>(f);
        t.add(c.name, "forward", f, type, plan_avg_pool<T>(src, a, dst));
        t.add(c.name, "backward", f, type, plan_avg_pool_backward<T>(dst, a, src));
        return;
    }
    const auto a = c.attributes<max_pool_attributes>(f);
    t.add(c.name, "forward", f, type, plan_max_pool<T>(src, a, dst));
    t.add(c.name, "forward_with_indices", f, type, plan_max_pool<T>(src, a, dst, dst));
    t.add(c.name, "backward", f, type, plan_max_pool_backward<T>(src, dst, a, src));
    t.add(c.name, "backward_from_indices", f, type,
          plan_max_pool_backward_from_indices<T>(dst, dst, {.data_format = f}, src));
}

template <class T>
void add_layers(table& t, const gradkern_cases::zoo& zoo, const char* type) {
    for (const data_format f : {data_format::ncx, data_format::nxc}) {
        for (const convolution_case& c : zoo.convolutions) add_convolution<T>(t, c, f, type, {});
        for (const pool_case& c : zoo.pools) add_pool<T>(t, c, f, type);
    }
}

/// The plans of the zoo. Strict ones are the same with and without dot products of bf16.
table plan_zoo(const gradkern_cases::zoo& zoo) {
    table t;
    if constexpr (detail::has_pairs<bfloat16>) {
        for (const data_format f : {data_format::ncx, data_format::nxc})
            for (const convolution_case& c : zoo.convolutions)
                add_convolution<bfloat16>(t, c, f, type_names[3], {.precision = precision::relaxed});
    } else {
        add_layers<float>(t, zoo, type_names[0]);
        add_layers<float16>(t, zoo, type_names[1]);
        add_layers<bfloat16>(t, zoo, type_names[2]);
    }
    return t;
}

// ------------------------------------------------------------------------------------------------------- the file

/// Texts by type, as pairs of a text and all types that have it: "f32+f16".
std::vector<std::pair<std::string, std::string>> joined(const std::map<std::string, std::string>& by_type) {
    std::vector<std::pair<std::string, std::string>> texts;
    for (const char* type : type_names) {
        const auto found = by_type.find(type);
        if (found == by_type.end()) continue;
        const auto same =
            std::find_if(texts.begin(), texts.end(), [&](const auto& t) { return t.first == found->second; });
        if (same == texts.end()) {
            texts.emplace_back(found->second, type);
        } else {
            same->second += std::string("+") + type;
        }
    }
    return texts;
}

/// One line for types that choose the same: "layer operator layout types: choice".
bool write(const rows& all, const char* path) {
    std::ofstream out(path);
    out << "# layer operator layout types: path, tasks, workspace. Written by choices --write.\n";
    for (const auto& [key, by_type] : all)
        for (const auto& [choice, types] : joined(by_type)) out << key << ' ' << types << ": " << choice << '\n';
    return static_cast<bool>(out);
}

bool read(rows& all, const char* path) {
    std::ifstream in(path);
    if (!in) return false;
    for (std::string line; std::getline(in, line);) {
        if (line.starts_with('#')) continue;
        const std::size_t colon = line.find(": ");
        std::size_t space = line.find(' ');  // the third one ends the key
        for (int i = 0; i < 2 && space != std::string::npos; ++i) space = line.find(' ', space + 1);
        if (colon == std::string::npos || space >= colon) return false;
        std::string names = line.substr(space + 1, colon - space - 1) + '+';
        for (std::size_t end = names.find('+'); end != std::string::npos; end = names.find('+')) {
            const std::string type = names.substr(0, end);
            if (std::find(std::begin(type_names), std::end(type_names), type) == std::end(type_names)) return false;
            all[line.substr(0, space)][type] = line.substr(colon + 2);
            names.erase(0, end + 1);
        }
    }
    return true;
}

/// Prints rows that differ and returns how many do.
int compare(const rows& was, const rows& is) {
    rows either = was;
    for (const auto& [key, by_type] : is) either[key].insert(by_type.begin(), by_type.end());
    const auto choice = [](const rows& r, const std::string& key, const std::string& type) -> std::string {
        const auto row = r.find(key);
        if (row == r.end() || row->second.count(type) == 0) return "(no row)";
        return row->second.at(type);
    };
    int differ = 0;
    for (const auto& [key, by_type] : either) {
        std::map<std::string, std::string> changes;
        for (const auto& [type, any] : by_type) {
            const std::string before = choice(was, key, type);
            const std::string now = choice(is, key, type);
            if (before != now) changes[type] = "  was " + before + "\n  is  " + now;
        }
        for (const auto& [change, types] : joined(changes)) {
            ++differ;
            std::printf("%s %s\n%s\n", key.c_str(), types.c_str(), change.c_str());
        }
    }
    return differ;
}

}  // namespace

int main(int argc, char** argv) {
    const std::string_view mode = argc == 4 ? argv[1] : "";
    if (mode != "--check" && mode != "--write") {
        std::fprintf(stderr, "usage: choices --check|--write TABLE ZOO\n");
        return 2;
    }
    const char* path = argv[2];
    const gradkern_cases::zoo zoo(argv[3]);
    const table now = plan_zoo(zoo);
    if (mode == "--write") return write(now.all(), path) ? 0 : 1;
    rows before;
    if (!read(before, path)) {
        std::fprintf(stderr, "%s is no table\n", path);
        return 1;
    }
    const int differ = compare(before, now.all());
    std::printf("%zu layers, %d rows differ from %s\n", zoo.convolutions.size() + zoo.pools.size(), differ, path);
    if (differ != 0) std::printf("If that is meant: %s --write %s %s\n", argv[0], path, argv[3]);
    return differ == 0 ? 0 : 1;
}
