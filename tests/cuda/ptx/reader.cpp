// SPDX-License-Identifier: BSL-1.0
// Reads PTX as nvcc and NVRTC write it.
#include "fault.hpp"
#include "module.hpp"

#include <algorithm>
#include <bit>
#include <cctype>
#include <charconv>
#include <cstring>
#include <optional>

namespace ptx {
namespace {

bool is_word(char c) {
    return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '$' || c == '%' || c == '.';
}

/// One statement at a time: up to `;`, `{`, `}` or `:` that ends one; with the line on which it begins.
class statements {
public:
    statements(std::string_view text, std::uint32_t line, std::string where)
        : text_(text), line_(line), where_(std::move(where)) {}

    struct one {
        std::string_view text;
        char end;
        std::uint32_t line;
    };

    /// Nothing at the end of the text.
    std::optional<one> next() {
        skip();
        if (at_ >= text_.size()) return std::nullopt;
        const std::size_t begin = at_;
        const std::uint32_t line = line_;
        int depth = 0;
        bool quoted = false;
        for (; at_ < text_.size(); ++at_) {
            const char c = text_[at_];
            if (c == '\n') {
                // Directives that end with the line.
                const auto so_far = text_.substr(begin, at_ - begin);
                if (depth == 0 && line_only(so_far)) return made(begin, '\n', line);
                ++line_;
            }
            if (c == '"') quoted = !quoted;
            if (quoted) continue;
            if (c == '/' && text_.substr(at_, 2) == "//") {
                while (at_ < text_.size() && text_[at_] != '\n') ++at_;
                --at_;
                continue;
            }
            if (c == '(' || c == '[') ++depth;
            if (c == ')' || c == ']') --depth;
            if (depth) continue;
            if (c == ';') return made(begin, c, line);
            if (c == ':' && text_.substr(at_, 2) != "::" && (at_ == 0 || text_[at_ - 1] != ':'))
                return made(begin, c, line);
            if (c == '}' && at_ == begin) return made(begin, c, line);
            if (c == '{') {
                // A body, or a vector of registers inside an instruction.
                const auto so_far = trim(text_.substr(begin, at_ - begin));
                const bool body = so_far.empty() || so_far.find(".entry") != so_far.npos ||
                                  so_far.find(".func") != so_far.npos ||
                                  so_far.find(".section") != so_far.npos;
                if (body) return made(begin, c, line);
                while (at_ < text_.size() && text_[at_] != '}') ++at_;
            }
        }
        return made(begin, '\n', line);
    }

    static std::string_view trim(std::string_view s) {
        while (!s.empty() && std::isspace(static_cast<unsigned char>(s.front()))) s.remove_prefix(1);
        while (!s.empty() && std::isspace(static_cast<unsigned char>(s.back()))) s.remove_suffix(1);
        return s;
    }
    std::size_t position() const noexcept { return at_; }
    std::uint32_t line() const noexcept { return line_; }

private:
    std::string_view text_;
    std::size_t at_ = 0;
    std::uint32_t line_;
    std::string where_;

    static bool line_only(std::string_view s) {
        for (const std::string_view d : {".version", ".target", ".address_size", ".file", ".loc", ".maxntid",
                                         ".minnctapersm", ".maxnreg", ".reqntid"})
            if (s.starts_with(d)) return true;
        return false;
    }
    void skip() {
        while (at_ < text_.size()) {
            const char c = text_[at_];
            if (c == '\n') ++line_;
            if (std::isspace(static_cast<unsigned char>(c))) {
                ++at_;
            } else if (text_.substr(at_, 2) == "//") {
                while (at_ < text_.size() && text_[at_] != '\n') ++at_;
            } else if (text_.substr(at_, 2) == "/*") {
                while (at_ < text_.size() && text_.substr(at_, 2) != "*/") line_ += text_[at_++] == '\n';
                at_ += 2;
            } else {
                return;
            }
        }
    }
    one made(std::size_t begin, char end, std::uint32_t line) {
        const auto text = trim(text_.substr(begin, at_ - begin));
        if (at_ < text_.size() && end != '\n') ++at_;
        return {text, end, line};
    }
};

[[noreturn]] void refuse(const std::string& where, std::uint32_t line, const std::string& why,
                         std::string_view text) {
    throw fault(where + ", PTX line " + std::to_string(line) + ": " + why + " [" + std::string(text) + "]");
}

std::uint64_t bytes_of(std::string_view type) {
    if (type.ends_with("64")) return 8;
    if (type.ends_with("32")) return 4;
    if (type.ends_with("16")) return 2;
    if (type.ends_with("8")) return 1;
    return 0;
}

std::vector<std::string_view> words_of(std::string_view s) {
    std::vector<std::string_view> out;
    std::size_t at = 0;
    while (at < s.size()) {
        while (at < s.size() && std::isspace(static_cast<unsigned char>(s[at]))) ++at;
        const std::size_t begin = at;
        while (at < s.size() && !std::isspace(static_cast<unsigned char>(s[at]))) ++at;
        if (at > begin) out.push_back(s.substr(begin, at - begin));
    }
    return out;
}

/// A declaration such as `.shared .align 4 .b8 name[48]`.
struct declaration {
    std::string name;
    std::uint64_t align = 0, bytes = 0;
    std::string_view initial;
    std::uint64_t each = 0;
};
declaration read_declaration(std::string_view text) {
    declaration d;
    if (const auto is = text.find('='); is != text.npos) {
        d.initial = statements::trim(text.substr(is + 1));
        text = statements::trim(text.substr(0, is));
    }
    const auto words = words_of(text);
    for (std::size_t i = 0; i < words.size(); ++i) {
        if (words[i] == ".align" && i + 1 < words.size())
            d.align = static_cast<std::uint64_t>(std::atoll(std::string(words[++i]).c_str()));
        else if (words[i].front() == '.' && bytes_of(words[i]))
            d.each = bytes_of(words[i]);
        else if (words[i].front() != '.')
            d.name = words[i];
    }
    d.bytes = d.each;
    if (const auto open = d.name.find('['); open != d.name.npos) {
        d.bytes = d.each * static_cast<std::uint64_t>(std::atoll(d.name.c_str() + open + 1));
        d.name.resize(open);
    }
    if (d.align == 0) d.align = d.each;
    return d;
}

std::optional<std::uint64_t> number(std::string_view s) {
    bool negative = false;
    if (!s.empty() && s.front() == '-') negative = true, s.remove_prefix(1);
    if (s.empty() || !std::isdigit(static_cast<unsigned char>(s.front()))) return std::nullopt;
    std::uint64_t value = 0;
    int base = 10;
    if (s.size() > 2 && s[0] == '0' && (s[1] == 'f' || s[1] == 'F' || s[1] == 'd' || s[1] == 'D'))
        base = 16, s.remove_prefix(2);
    else if (s.size() > 2 && s[0] == '0' && (s[1] == 'x' || s[1] == 'X'))
        base = 16, s.remove_prefix(2);
    while (!s.empty() && s.back() == 'U') s.remove_suffix(1);
    const auto [end, error] = std::from_chars(s.data(), s.data() + s.size(), value, base);
    if (error != std::errc() || end != s.data() + s.size()) return std::nullopt;
    return negative ? ~value + 1 : value;
}

/// One function.
class body_reader {
public:
    body_reader(function& f, const std::map<std::string, variable, std::less<>>& globals,
                const std::string& where)
        : f_(f), variables_(globals), where_(where) {}

    void parameters(std::string_view list, std::uint32_t line) {
        while (!list.empty()) {
            const auto comma = list.find(',');
            const auto d = read_declaration(statements::trim(list.substr(0, comma)));
            if (d.name.empty() || d.bytes == 0)
                refuse(where_, line, "a parameter that is not understood", list);
            const auto at = (f_.parameter_bytes + d.align - 1) / d.align * d.align;
            variables_[d.name] = {space::parameter, at, d.bytes};
            f_.parameters.push_back({space::parameter, at, d.bytes});
            f_.parameter_bytes = at + d.bytes;
            list = comma == list.npos ? std::string_view() : list.substr(comma + 1);
        }
    }

    void read(statements& from) {
        int depth = 1;
        while (const auto s = from.next()) {
            if (s->end == '}' && s->text.empty()) {
                if (--depth == 0) break;
            } else if (s->end == '{' && s->text.empty()) {
                ++depth;
            } else if (s->end == ':') {
                labels_[std::string(s->text)] = static_cast<std::int32_t>(f_.code.size());
            } else if (s->text.starts_with(".")) {
                directive(*s);
            } else if (!s->text.empty()) {
                one(*s);
            }
        }
        for (auto& i : f_.code)
            if (i.then == flow::branch) {
                const auto at = labels_.find(targets_[static_cast<std::size_t>(&i - f_.code.data())]);
                if (at == labels_.end()) refuse(where_, i.line, "an unknown label", i.text);
                i.target = at->second;
            }
        if (f_.code.empty()) refuse(where_, f_.line, "a function without instructions", f_.name);
    }

private:
    function& f_;
    std::map<std::string, variable, std::less<>> variables_;
    const std::string& where_;
    std::unordered_map<std::string, std::int32_t> registers_;
    std::map<std::uint64_t, std::int32_t> constants_;
    std::unordered_map<std::string, std::int32_t> labels_;
    std::unordered_map<std::size_t, std::string> targets_;

    std::int32_t new_register(const std::string& name) {
        f_.register_names.push_back(name);
        return f_.registers++;
    }

    void directive(const statements::one& s) {
        const auto words = words_of(s.text);
        if (words[0] == ".reg") {
            // .reg .b32 %r<699>; or .reg .b32 %r1, t;
            auto rest =
                s.text.substr(static_cast<std::size_t>(words[1].data() - s.text.data()) + words[1].size());
            while (!rest.empty()) {
                const auto comma = rest.find(',');
                const auto name = statements::trim(rest.substr(0, comma));
                if (const auto open = name.find('<'); open != name.npos) {
                    const int count = std::atoi(std::string(name.substr(open + 1)).c_str());
                    for (int i = 0; i < count; ++i) {
                        const auto each = std::string(name.substr(0, open)) + std::to_string(i);
                        registers_[each] = new_register(each);
                    }
                } else {
                    registers_[std::string(name)] = new_register(std::string(name));
                }
                rest = comma == rest.npos ? std::string_view() : rest.substr(comma + 1);
            }
        } else if (words[0] == ".shared" || words[0] == ".local") {
            const auto d = read_declaration(s.text);
            auto& bytes = words[0] == ".shared" ? f_.shared_bytes : f_.local_bytes;
            bytes = (bytes + d.align - 1) / d.align * d.align;
            variables_[d.name] = {words[0] == ".shared" ? space::shared : space::local, bytes, d.bytes};
            bytes += d.bytes;
        } else if (words[0] != ".pragma" && words[0] != ".loc" && words[0] != ".maxntid") {
            refuse(where_, s.line, "a directive that the interpreter does not know", s.text);
        }
    }

    std::int32_t constant(std::uint64_t value) {
        const auto [at, is_new] = constants_.try_emplace(value, -1);
        if (is_new) {
            at->second = new_register(std::to_string(static_cast<std::int64_t>(value)));
            f_.constants.push_back({at->second, value});
        }
        return at->second;
    }

    std::int32_t named(std::string_view name, const statements::one& s) {
        if (name == "_") return -1;
        if (const auto found = registers_.find(std::string(name)); found != registers_.end())
            return found->second;
        if (const auto value = number(name)) return constant(*value);
        if (const auto found = variables_.find(name); found != variables_.end())
            return constant(found->second.offset);
        static const std::map<std::string_view, special> known{{"%tid.x", special::tid_x},
                                                               {"%tid.y", special::tid_y},
                                                               {"%tid.z", special::tid_z},
                                                               {"%ntid.x", special::ntid_x},
                                                               {"%ntid.y", special::ntid_y},
                                                               {"%ntid.z", special::ntid_z},
                                                               {"%ctaid.x", special::ctaid_x},
                                                               {"%ctaid.y", special::ctaid_y},
                                                               {"%ctaid.z", special::ctaid_z},
                                                               {"%nctaid.x", special::nctaid_x},
                                                               {"%nctaid.y", special::nctaid_y},
                                                               {"%nctaid.z", special::nctaid_z},
                                                               {"%laneid", special::laneid},
                                                               {"%warpid", special::warpid},
                                                               {"%nwarpid", special::nwarpid},
                                                               {"%lanemask_eq", special::lanemask_eq},
                                                               {"%lanemask_lt", special::lanemask_lt},
                                                               {"%lanemask_le", special::lanemask_le},
                                                               {"%lanemask_gt", special::lanemask_gt},
                                                               {"%lanemask_ge", special::lanemask_ge}};
        if (const auto found = known.find(name); found != known.end()) {
            const auto reg = new_register(std::string(name));
            registers_[std::string(name)] = reg;
            f_.specials.push_back({reg, found->second});
            return reg;
        }
        refuse(where_, s.line, "an operand that is not understood: " + std::string(name), s.text);
    }

    operand read_operand(std::string_view text, const statements::one& s) {
        operand o;
        text = statements::trim(text);
        if (text.front() == '!') o.negated = true, text = statements::trim(text.substr(1));
        if (text.front() == '[') {
            o.address = true;
            text = statements::trim(text.substr(1, text.find(']') - 1));
            if (const auto plus = text.find('+'); plus != text.npos) {
                const auto offset = number(statements::trim(text.substr(plus + 1)));
                if (!offset) refuse(where_, s.line, "an address that is not understood", s.text);
                o.offset = static_cast<std::int64_t>(*offset);
                text = statements::trim(text.substr(0, plus));
            }
            o.reg[o.count++] = named(text, s);
        } else {
            const char between = text.front() == '{' ? ',' : '|';
            if (between == ',') text = statements::trim(text.substr(1, text.find('}') - 1));
            while (!text.empty()) {
                const auto cut = text.find(between);
                if (o.count == 4) refuse(where_, s.line, "a vector that is too long", s.text);
                o.reg[o.count++] = named(statements::trim(text.substr(0, cut)), s);
                text = cut == text.npos ? std::string_view() : text.substr(cut + 1);
            }
        }
        return o;
    }

    void one(const statements::one& s) {
        instruction i;
        i.line = s.line;
        i.text = std::string(s.text);
        std::replace_if(
            i.text.begin(), i.text.end(), [](char c) { return c == '\t' || c == '\n'; }, ' ');
        std::string_view text = s.text;
        if (text.front() == '@') {
            text.remove_prefix(1);
            if (text.front() == '!') i.unless = true, text.remove_prefix(1);
            std::size_t end = 0;
            while (end < text.size() && is_word(text[end])) ++end;
            i.guard = named(text.substr(0, end), s);
            text = statements::trim(text.substr(end));
        }
        std::size_t end = 0;
        while (end < text.size() && (is_word(text[end]) || text[end] == ':')) ++end;
        const auto name = text.substr(0, end);
        const opcode* known = find_opcode(name);
        if (!known)
            refuse(where_, s.line, "the interpreter does not know the opcode " + std::string(name), i.text);
        i.run = known->run;
        i.then = known->then;
        i.uniform = known->uniform;
        i.where = known->where;
        text = statements::trim(text.substr(end));
        if (i.then == flow::branch) {
            targets_[f_.code.size()] = std::string(text);
        } else {
            while (!text.empty()) {
                std::size_t cut = 0;
                int depth = 0;
                for (; cut < text.size(); ++cut) {
                    if (text[cut] == '{' || text[cut] == '[') ++depth;
                    if (text[cut] == '}' || text[cut] == ']') --depth;
                    if (text[cut] == ',' && depth == 0) break;
                }
                i.operands.push_back(read_operand(text.substr(0, cut), s));
                text = cut >= text.size() ? std::string_view() : statements::trim(text.substr(cut + 1));
            }
        }
        f_.code.push_back(std::move(i));
    }
};

} // namespace

module::module(std::string name, std::string text) :name_(std::move(name)), text_(std::move(text)) {
    if (const auto end = text_.find('\0'); end != text_.npos) text_.resize(end);
}

void module::replace_line(std::uint32_t line, const std::string& with) {
    std::size_t begin = 0;
    for (std::uint32_t n = 1; n < line; ++n) begin = text_.find('\n', begin) + 1;
    text_.replace(begin, text_.find('\n', begin) - begin, with);
}

void module::scan() {
    if (scanned_) return;
    scanned_ = true;
    statements all(text_, 1, name_);
    std::size_t begin = 0;
    std::uint32_t line = 1;
    for (;;) {
        begin = all.position();
        line = all.line();
        const auto s = all.next();
        if (!s) break;
        const bool code = s->text.find(".entry") != s->text.npos || s->text.find(".func") != s->text.npos;
        if (s->end == '{' && code) {
            const auto entry = s->text.find(".entry");
            if (entry != s->text.npos) {
                auto rest = statements::trim(s->text.substr(entry + 6));
                std::size_t end = 0;
                while (end < rest.size() && is_word(rest[end])) ++end;
                place p{begin, 0, line};
                int depth = 1;
                while (depth > 0) {
                    const auto inner = all.next();
                    if (!inner) refuse(name_, s->line, "a function without an end", rest.substr(0, end));
                    if (inner->end == '{' && inner->text.empty()) ++depth;
                    if (inner->end == '}' && inner->text.empty()) --depth;
                }
                p.end = all.position();
                places_[std::string(rest.substr(0, end))] = p;
            } else {
                refuse(name_, s->line, "functions that are called are not interpreted", s->text);
            }
        } else if (s->end == '{' && s->text.find(".section") != s->text.npos) {
            while (const auto inner = all.next())
                if (inner->end == '}' && inner->text.empty()) break;
        } else if (s->text.find(".global") != s->text.npos || s->text.find(".const") != s->text.npos) {
            declare_global(s->text, s->line);
        }
    }
}

void module::declare_global(std::string_view statement, std::uint32_t line) {
    const auto d = read_declaration(statement);
    if (d.name.empty() || d.bytes == 0)
        refuse(name_, line, "a declaration that is not understood", statement);
    data_.push_back(std::make_unique<std::byte[]>(d.bytes));
    std::byte* at = data_.back().get();
    auto list = d.initial;
    if (!list.empty() && list.front() == '{') list = list.substr(1, list.find('}') - 1);
    for (std::uint64_t i = 0; !list.empty() && i + d.each <= d.bytes; i += d.each) {
        const auto comma = list.find(',');
        const auto value = number(statements::trim(list.substr(0, comma)));
        if (!value) refuse(name_, line, "an initial value that is not understood", statement);
        std::memcpy(at + i, &*value, d.each);
        list = comma == list.npos ? std::string_view() : list.substr(comma + 1);
    }
    globals_[d.name] = {space::global, reinterpret_cast<std::uint64_t>(at), d.bytes};
}

const function* module::find(std::string_view name) {
    scan();
    const auto found = places_.find(name);
    if (found == places_.end()) return nullptr;
    auto& made = read_[std::string(name)];
    if (!made) {
        auto f = std::make_unique<function>();
        f->name = name;
        const auto& p = found->second;
        statements from(std::string_view(text_).substr(p.begin, p.end - p.begin), p.line, name_);
        const auto head = from.next();
        f->line = head->line;
        body_reader reader(*f, globals_, f->name);
        const auto open = head->text.find('(');
        if (open != head->text.npos)
            reader.parameters(statements::trim(head->text.substr(open + 1, head->text.find(')') - open - 1)),
                              head->line);
        reader.read(from);
        find_reconvergence(*f);
        made = std::move(f);
    }
    return made.get();
}

std::vector<std::string> module::names() {
    scan();
    std::vector<std::string> out;
    for (const auto& [name, p] : places_) out.push_back(name);
    return out;
}

} // namespace ptx
