// SPDX-License-Identifier: Apache-2.0
// Names and tables are Oniguruma's. Debian's Oniguruma has Unicode 14, that of Hugging Face
// tokenizers has Unicode 16. So categories are from our tables, and later additions to scripts are
// listed here.
#include "coordinator/text/unicode/unicode_properties.h"

#include <oniguruma.h>

#include <algorithm>
#include <cctype>
#include <string>
#include <utility>

#include "coordinator/text/unicode/oniguruma.h"
#include "coordinator/text/unicode/unicode.h"

namespace lockstep {
namespace {

struct NewerRange {
  std::string_view property;
  CodePointSet::Range range;
};

// Facts of the Unicode Character Database, found by testing every code point with tokenizers.
constexpr NewerRange kPropertiesAfterUnicode14[] = {
    {"arabic", {0x897, 0x897}},
    {"arabic", {0x10EC2, 0x10EC4}},
    {"arabic", {0x10EFC, 0x10EFF}},
    {"balinese", {0x1B4E, 0x1B4F}},
    {"balinese", {0x1B7F, 0x1B7F}},
    {"cyrillic", {0x1C89, 0x1C8A}},
    {"cyrillic", {0x1E030, 0x1E06D}},
    {"cyrillic", {0x1E08F, 0x1E08F}},
    {"devanagari", {0x11B00, 0x11B09}},
    {"egyptianhieroglyphs", {0x1342F, 0x1342F}},
    {"egyptianhieroglyphs", {0x13439, 0x13455}},
    {"egyptianhieroglyphs", {0x13460, 0x143FA}},
    {"han", {0x2B739, 0x2B739}},
    {"han", {0x2EBF0, 0x2EE5D}},
    {"han", {0x31350, 0x323AF}},
    {"hiragana", {0x1B132, 0x1B132}},
    {"kannada", {0xCF3, 0xCF3}},
    {"katakana", {0x1B155, 0x1B155}},
    {"khitansmallscript", {0x18CFF, 0x18CFF}},
    {"khojki", {0x1123F, 0x11241}},
    {"lao", {0xECE, 0xECE}},
    {"lower", {0x10FC, 0x10FC}},
    {"lower", {0xA7F2, 0xA7F4}},
    {"lower", {0xAB69, 0xAB69}},
    {"lower", {0x1E030, 0x1E06D}},
    {"latin", {0xA7CB, 0xA7CD}},
    {"latin", {0xA7DA, 0xA7DC}},
    {"latin", {0x1DF25, 0x1DF2A}},
    {"myanmar", {0x116D0, 0x116E3}},
};

// Scripts that Oniguruma does not know, in its format: the number of ranges, and the first and last
// code point of each.
struct NewScript {
  const char* name;
  std::vector<OnigCodePoint> ranges;
};
std::vector<NewScript>& new_scripts() {
  static std::vector<NewScript> scripts = {
      {"Kawi", {3, 0x11F00, 0x11F10, 0x11F12, 0x11F3A, 0x11F3E, 0x11F5A}},
      {"Nag_Mundari", {1, 0x1E4D0, 0x1E4F9}},
      {"Garay", {3, 0x10D40, 0x10D65, 0x10D69, 0x10D85, 0x10D8E, 0x10D8F}},
      {"Gurung_Khema", {1, 0x16100, 0x16139}},
      {"Kirat_Rai", {1, 0x16D40, 0x16D79}},
      {"Ol_Onal", {2, 0x1E5D0, 0x1E5FA, 0x1E5FF, 0x1E5FF}},
      {"Sunuwar", {2, 0x11BC0, 0x11BE1, 0x11BF0, 0x11BF9}},
      {"Todhri", {1, 0x105C0, 0x105F3}},
      {"Tulu_Tigalari", {11,      0x11380, 0x11389, 0x1138B, 0x1138B, 0x1138E, 0x1138E, 0x11390,
                         0x113B5, 0x113B7, 0x113C0, 0x113C2, 0x113C2, 0x113C5, 0x113C5, 0x113C7,
                         0x113CA, 0x113CC, 0x113D5, 0x113D7, 0x113D8, 0x113E1, 0x113E2}},
  };
  return scripts;
}

std::string plain_name(std::string_view name) {
  std::string plain;
  for (const char c : name) {
    if (c == ' ' || c == '-' || c == '_') continue;
    plain.push_back(static_cast<char>(std::tolower(static_cast<unsigned char>(c))));
  }
  return plain;
}

// Long names of categories, and Oniguruma's names that mean a category.
struct CategoryName {
  std::string_view name;
  std::string_view category;
};
constexpr CategoryName kLongCategories[] = {
    {"letter", "L"},
    {"uppercaseletter", "Lu"},
    {"lowercaseletter", "Ll"},
    {"titlecaseletter", "Lt"},
    {"modifierletter", "Lm"},
    {"otherletter", "Lo"},
    {"mark", "M"},
    {"combiningmark", "M"},
    {"nonspacingmark", "Mn"},
    {"spacingmark", "Mc"},
    {"enclosingmark", "Me"},
    {"number", "N"},
    {"decimalnumber", "Nd"},
    {"digit", "Nd"},
    {"letternumber", "Nl"},
    {"othernumber", "No"},
    {"punctuation", "P"},
    {"punct", "P"},
    {"connectorpunctuation", "Pc"},
    {"dashpunctuation", "Pd"},
    {"openpunctuation", "Ps"},
    {"closepunctuation", "Pe"},
    {"initialpunctuation", "Pi"},
    {"finalpunctuation", "Pf"},
    {"otherpunctuation", "Po"},
    {"symbol", "S"},
    {"mathsymbol", "Sm"},
    {"currencysymbol", "Sc"},
    {"modifiersymbol", "Sk"},
    {"othersymbol", "So"},
    {"separator", "Z"},
    {"spaceseparator", "Zs"},
    {"lineseparator", "Zl"},
    {"paragraphseparator", "Zp"},
    {"other", "C"},
    {"control", "Cc"},
    {"format", "Cf"},
    {"unassigned", "Cn"},
    {"surrogate", "Cs"},
    {"privateuse", "Co"},
};

// Short names of scripts and other properties that have rows above.
constexpr std::pair<std::string_view, std::string_view> kSameProperties[] = {
    {"uppercase", "upper"},
    {"lowercase", "lower"},
    {"alphabetic", "alpha"},
    {"zzzz", "unknown"},
    {"arab", "arabic"},
    {"bali", "balinese"},
    {"cyrl", "cyrillic"},
    {"deva", "devanagari"},
    {"hani", "han"},
    {"hira", "hiragana"},
    {"knda", "kannada"},
    {"kana", "katakana"},
    {"khoj", "khojki"},
    {"laoo", "lao"},
    {"latn", "latin"},
    {"mymr", "myanmar"},
    {"egyp", "egyptianhieroglyphs"},
    {"kits", "khitansmallscript"},
};

std::string category_named(std::string_view plain) {
  for (const CategoryName& row : kLongCategories) {
    if (row.name == plain) return std::string(row.category);
  }
  std::string name(plain);
  if (!name.empty()) name[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(name[0])));
  return is_category_name(name) ? name : "";
}

// One set for each category.
const std::vector<CodePointSet>& category_sets() {
  static const std::vector<CodePointSet> sets = [] {
    std::vector<CodePointSet> all(static_cast<size_t>(Category::kCo) + 1);
    for (char32_t c = 0; c <= kLastCodePoint;) {
      const Category category = category_of(c);
      const char32_t first = c;
      while (c <= kLastCodePoint && category_of(c) == category) ++c;
      all[static_cast<size_t>(category)].add(CodePointSet::Range{first, c - 1});
    }
    return all;
  }();
  return sets;
}

// The union of all categories of that name: "L" has five.
CodePointSet category_set(std::string_view name) {
  CodePointSet set;
  for (size_t i = 0; i < category_sets().size(); ++i) {
    if (is_in(static_cast<Category>(i), name)) set.add(category_sets()[i]);
  }
  return set;
}

CodePointSet library_set(int type) {
  OnigCodePoint single_bytes = 0;
  const OnigCodePoint* ranges = nullptr;
  CodePointSet set;
  if (onig_utf8()->get_ctype_code_range(static_cast<OnigCtype>(type), &single_bytes, &ranges) !=
      0) {
    return set;
  }
  for (OnigCodePoint i = 0; i < ranges[0]; ++i) {
    const char32_t last = std::min<char32_t>(ranges[2 + 2 * i], kLastCodePoint);
    if (ranges[1 + 2 * i] <= last) set.add({ranges[1 + 2 * i], last});
  }
  return set;
}

// Adds the members that a property gained after Unicode 14.
void add_newer(std::string_view plain, CodePointSet* set) {
  for (const NewerRange& row : kPropertiesAfterUnicode14) {
    if (row.property == plain) set->add(row.range);
  }
  const auto add_newer_of = [&](auto is_member) {
    for (const CategoryRange& range : assigned_after_unicode_14()) {
      if (is_member(range.category)) set->add({range.first, range.last});
    }
  };
  if (plain == "upper") {
    add_newer_of([](Category c) { return c == Category::kLu; });
  } else if (plain == "lower") {
    add_newer_of([](Category c) { return c == Category::kLl; });
  } else if (plain == "alpha") {
    add_newer_of([](Category c) { return is_in(c, "L"); });
  } else if (plain == "alnum") {
    add_newer_of([](Category c) { return is_in(c, "L") || c == Category::kNd; });
  } else if (plain == "graph" || plain == "print" || plain == "assigned") {
    add_newer_of([](Category) { return true; });
  } else if (plain == "unknown") {
    *set = set->intersection(property_set("Assigned")->complement());
  }
}

}  // namespace

void define_new_scripts() {
  for (NewScript& script : new_scripts()) {
    onig_unicode_define_user_property(script.name, script.ranges.data());
  }
}

std::optional<CodePointSet> property_set(std::string_view name) {
  std::string plain = plain_name(name);
  for (const auto& [longer, same] : kSameProperties) {
    if (plain == longer) plain = same;
  }
  if (const std::string category = category_named(plain); !category.empty()) {
    return category_set(category);
  }
  if (plain == "word") return class_word_set();
  for (const NewScript& script : new_scripts()) {
    if (plain_name(script.name) != plain) continue;
    CodePointSet set;
    for (size_t i = 1; i < script.ranges.size(); i += 2) {
      set.add({script.ranges[i], script.ranges[i + 1]});
    }
    return set;
  }
  auto* text = reinterpret_cast<OnigUChar*>(plain.data());
  const int type = onig_utf8()->property_name_to_ctype(onig_utf8(), text, text + plain.size());
  if (type < 0) return std::nullopt;
  CodePointSet set = library_set(type);
  add_newer(plain, &set);
  return set;
}

std::optional<CodePointSet> posix_set(std::string_view name) {
  static constexpr std::string_view kNames[] = {"alnum", "alpha", "ascii", "blank", "cntrl",
                                                "digit", "graph", "lower", "print", "punct",
                                                "space", "upper", "word",  "xdigit"};
  if (std::find(std::begin(kNames), std::end(kNames), name) == std::end(kNames)) {
    return std::nullopt;
  }
  std::optional<CodePointSet> set = property_set(name);
  if (name == "punct") set->add(category_set("S"));
  return set;
}

const CodePointSet& class_word_set() {
  static const CodePointSet set = [] {
    CodePointSet words = category_set("M");
    for (const char* name : {"L", "Nd", "Nl", "Pc"}) words.add(category_set(name));
    // Circled and squared letters are symbols, but count as word characters.
    words.add({{0x24B6, 0x24E9}, {0x1F130, 0x1F149}, {0x1F150, 0x1F169}, {0x1F170, 0x1F189}});
    return words;
  }();
  return set;
}

const CodePointSet& word_set() {
  static const CodePointSet set = [] {
    CodePointSet words = class_word_set();
    words.add({{0xB2, 0xB3}, {0xB9, 0xB9}, {0xBC, 0xBE}});
    return words;
  }();
  return set;
}

std::vector<CaseVariant> case_variants(std::string_view text) {
  OnigCaseFoldCodeItem items[ONIGENC_GET_CASE_FOLD_CODES_MAX_NUM];
  const auto* begin = reinterpret_cast<const OnigUChar*>(text.data());
  const int count = onig_utf8()->get_case_fold_codes_by_str(ONIGENC_CASE_FOLD_MIN, begin,
                                                            begin + text.size(), items);
  std::vector<CaseVariant> variants;
  variants.reserve(static_cast<size_t>(std::max(count, 0)));
  for (int i = 0; i < count; ++i) {
    variants.push_back({static_cast<size_t>(items[i].byte_len),
                        {items[i].code, items[i].code + items[i].code_len}});
  }
  return variants;
}

std::vector<std::vector<char32_t>> add_case_variants(CodePointSet* set) {
  struct State {
    const CodePointSet* members;
    CodePointSet added;
    std::vector<std::vector<char32_t>> longer;
  } state{set, {}, {}};
  const auto visit = [](OnigCodePoint from, OnigCodePoint* to, int count, void* argument) {
    auto* visited = static_cast<State*>(argument);
    if (!visited->members->contains(from)) return 0;
    if (count == 1) {
      visited->added.add(CodePointSet::Range{*to, *to});
    } else {
      visited->longer.emplace_back(to, to + count);
    }
    return 0;
  };
  onig_utf8()->apply_all_case_fold(ONIGENC_CASE_FOLD_MIN, visit, &state);
  set->add(state.added);
  return state.longer;
}

}  // namespace lockstep
