// SPDX-License-Identifier: Apache-2.0
#include "coordinator/text/template/template_traits.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/text_map.h"
#include "coordinator/text/template/chat_template.h"
#include "coordinator/text/text_search.h"

namespace lockstep {
namespace {

// The texts of the test conversations. They are in no template, none contains another one, and they
// have only letters, which no escaping changes.
constexpr std::string_view kQuestion = "probequestion";
constexpr std::string_view kAnswer = "probeanswer";
constexpr std::string_view kNext = "probenext";
constexpr std::string_view kSystem = "probesystem";
constexpr std::string_view kSecond = "probesecond";
constexpr std::string_view kOther = "probeother";
constexpr std::string_view kTool = "probetool";
constexpr std::string_view kXmlTools = "xml_tools";
constexpr std::string_view kKey = "probekey";
constexpr std::string_view kValues[] = {"probevalueone", "probevaluetwo"};
constexpr std::string_view kResults[] = {"proberesultone", "proberesulttwo"};
constexpr std::string_view kDocument = "probedocument";
// Mistral's templates accept only nine letters or digits.
constexpr std::string_view kIds[] = {"probe0001", "probe0002"};

constexpr ContentForm other_than(ContentForm form) {
  return form == ContentForm::kText ? ContentForm::kParts : ContentForm::kText;
}

using Words = std::vector<std::string_view>;

OrderedJson content_of(std::string_view text, ContentForm form) {
  if (form != ContentForm::kParts) return text;
  return OrderedJson::array({text_part(text)});
}

OrderedJson turn(std::string_view role, std::string_view text, ContentForm form) {
  return {{"role", role}, {"content", content_of(text, form)}};
}

OrderedJson one_tool() {
  const OrderedJson parameters = {
      {"type", "object"},
      {"properties", {{kKey, {{"type", "string"}, {"description", kKey}}}}},
      {"required", OrderedJson::array({kKey})}};
  return OrderedJson::array(
      {{{"type", "function"},
        {"function", {{"name", kTool}, {"description", kTool}, {"parameters", parameters}}}}});
}

// All words in single or double quotes that could be a role's name.
TextSet<std::string> quoted_words(std::string_view source) {
  TextSet<std::string> words;
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] != '\'' && source[i] != '"') continue;
    const size_t end = source.find_first_not_of("abcdefghijklmnopqrstuvwxyz_", i + 1);
    if (end == std::string_view::npos || end == i + 1 || source[end] != source[i]) continue;
    words.emplace(source.substr(i + 1, end - i - 1));
  }
  return words;
}

class Questions {
 public:
  Questions(std::string_view source, TemplateTraits::Render render)
      : source_(source), render_(render) {
    traits_.names = quoted_words(source);
  }

  TemplateTraits ask() {
    traits_.asked = ask_turns();
    if (!traits_.asked) return {};
    ask_instructions();
    ask_tools_and_documents();
    traits_.result_content = traits_.turn_content;
    if (ask_calls()) {
      ask_results();
      ask_pairings();
    }
    ask_lists();
    return traits_;
  }

 private:
  // Renders a conversation. kShown: the prompt has all these words.
  Fate fate_of(const OrderedJson& messages, const Words& words) {
    TemplateInput request;
    request.messages = messages;
    request.add_generation_prompt = true;
    request.tools_variable = traits_.tools_variable;
    if (gives_tools_) request.tools = one_tool();
    if (gives_documents_) {
      request.documents =
          OrderedJson::array({{{"doc_id", "1"}, {"title", "Title"}, {"text", kDocument}}});
    }
    absl::StatusOr<std::string> text = render_(request);
    prompt_.clear();
    if (!text.ok()) return Fate::kRefused;
    prompt_ = *std::move(text);
    const bool has_all =
        std::ranges::all_of(words, [&](std::string_view word) { return has(word); });
    return has_all ? Fate::kShown : Fate::kLeftOut;
  }
  bool has(std::string_view word) const { return find_text(prompt_, word) != std::string::npos; }
  bool shows(const OrderedJson& messages, const Words& words) {
    return fate_of(messages, words) == Fate::kShown;
  }

  OrderedJson user(std::string_view text = kQuestion) const {
    return turn("user", text, traits_.turn_content);
  }
  OrderedJson assistant(std::string_view text = kAnswer) const {
    return turn("assistant", text, traits_.turn_content);
  }

  // Some templates that are only for tools fail without tools.
  bool ask_turns() {
    for (const bool tools : {false, true}) {
      for (const ContentForm form : {ContentForm::kText, ContentForm::kParts}) {
        gives_tools_ = tools;
        traits_.turn_content = form;
        if (shows({user(), assistant(), user(kNext)}, {kQuestion, kAnswer, kNext})) return true;
      }
    }
    return false;
  }

  Fate instruction(std::string_view role, Place place) {
    const OrderedJson given = turn(role, kSystem, traits_.instruction_content);
    switch (place) {
      case Place::kAlone:
        return fate_of(OrderedJson::array({given}), {kSystem});
      case Place::kFirst:
        return fate_of({given, user()}, {kSystem});
      case Place::kLater:
        break;
    }
    return fate_of({user(), assistant(), given, user(kNext)}, {kSystem});
  }

  void ask_instructions() {
    traits_.instruction_content = traits_.turn_content;
    if (instruction("system", Place::kFirst) != Fate::kShown) {
      traits_.instruction_content = other_than(traits_.turn_content);
      const bool helps = instruction("system", Place::kFirst) == Fate::kShown;
      if (!helps) traits_.instruction_content = traits_.turn_content;
    }
    for (const Place place : {Place::kAlone, Place::kFirst, Place::kLater}) {
      traits_.system[static_cast<size_t>(place)] = instruction("system", place);
      traits_.developer[static_cast<size_t>(place)] = instruction("developer", place);
    }
    traits_.other_roles =
        std::min(fate_of({user(), turn(kOther, kSecond, traits_.turn_content)}, {kSecond}),
                 fate_of({user(), assistant(), turn(kOther, kSecond, traits_.turn_content), user()},
                         {kSecond}));
    const ContentForm form = traits_.instruction_content;
    for (const char* first : {"system", "developer"}) {
      for (const char* second : {"system", "developer"}) {
        // A developer's message becomes a system message if the template does not name the role.
        const std::string_view roles[] = {first, second};
        const bool developer = std::ranges::find(roles, "developer") != std::end(roles);
        if (developer && !traits_.names.contains("developer")) continue;
        const OrderedJson messages = {turn(first, kSystem, form), turn(second, kSecond, form),
                                      user()};
        traits_.several_instructions &= shows(messages, {kSystem, kSecond});
      }
    }
    const OrderedJson system = turn("system", kSystem, form);
    const OrderedJson second = turn("system", kSecond, form);
    traits_.later_instruction_replaces =
        fate_of({system, user(), assistant(), second, user(kNext)}, {kSystem}) == Fate::kLeftOut;
    traits_.instructions_need_question =
        traits_.system[static_cast<size_t>(Place::kFirst)] == Fate::kShown &&
        fate_of({system, user(), assistant()}, {kSystem}) == Fate::kLeftOut;
  }

  void ask_tools_and_documents() {
    const bool gave_tools = gives_tools_;
    const OrderedJson system = turn("system", kSystem, traits_.instruction_content);
    gives_tools_ = true;
    const auto fate = [&] {
      return std::min(fate_of(OrderedJson::array({user()}), {kTool}),
                      fate_of({system, user()}, {kTool}));
    };
    traits_.tools = fate();
    if (traits_.tools == Fate::kLeftOut && source_.find(kXmlTools) != source_.npos) {
      traits_.tools_variable = kXmlTools;
      traits_.tools = fate();
    }
    gives_tools_ = gave_tools;
    gives_documents_ = true;
    traits_.documents = std::min(fate_of(OrderedJson::array({user()}), {kDocument}),
                                 fate_of({system, user()}, {kDocument}));
    gives_documents_ = false;
  }

  // A message with the calls of these indexes (in kIds, kValues). If `text` is empty, no_content
  // decides the message's content.
  OrderedJson calls(const std::vector<size_t>& which, bool as_object,
                    std::string_view text = {}) const {
    OrderedJson message = {{"role", "assistant"}};
    if (!text.empty() || traits_.no_content == NoContent::kEmpty) {
      message["content"] = content_of(text, traits_.turn_content);
      if (text.empty() && traits_.turn_content == ContentForm::kParts) {
        message["content"] = OrderedJson::array();
      }
    } else if (traits_.no_content == NoContent::kNull) {
      message["content"] = nullptr;
    }
    for (const size_t i : which) {
      const OrderedJson arguments = {{kKey, kValues[i]}};
      const OrderedJson given = as_object ? arguments : OrderedJson(arguments.dump());
      message["tool_calls"].push_back({{"id", kIds[i]},
                                       {"type", "function"},
                                       {"function", {{"name", kTool}, {"arguments", given}}}});
    }
    return message;
  }
  OrderedJson calls(const std::vector<size_t>& which, std::string_view text = {}) const {
    return calls(which, traits_.arguments_as_object, text);
  }
  OrderedJson result(size_t i) const {
    OrderedJson message = turn("tool", kResults[i], traits_.result_content);
    message["tool_call_id"] = kIds[i];
    return message;
  }
  // A question and these messages; if `goes_on`, also an answer and the next question.
  OrderedJson conversation(const OrderedJson& middle, bool goes_on) const {
    OrderedJson messages = OrderedJson::array({user()});
    messages.insert(messages.end(), middle.begin(), middle.end());
    if (goes_on) messages.insert(messages.end(), {assistant(), user(kNext)});
    return messages;
  }
  OrderedJson conversation(const OrderedJson& middle) const {
    return conversation(middle, goes_on_);
  }

  // Rates how arguments of this form are shown. 0: not at all. 1: somehow. 2: as JSON, without a
  // Python dict, JSON inside a JSON string, or a "None" from null content.
  int ask_call(bool as_object) {
    const Fate fate = fate_of(conversation({calls({0}, as_object), result(0)}), {kValues[0]});
    traits_.calls = std::min(traits_.calls, fate);
    if (fate == Fate::kRefused) return 0;
    traits_.results = std::min(traits_.results, has(kResults[0]) ? Fate::kShown : Fate::kLeftOut);
    if (fate == Fate::kLeftOut) return 0;
    const std::string value(kValues[0]);
    const bool is_clean = !has("'" + value + "'}") && !has("\\\"" + value) &&
                          (traits_.no_content != NoContent::kNull || !has("None"));
    return is_clean ? 2 : 1;
  }

  // Whether calls are shown. Keeps the settings that show them best.
  bool ask_calls() {
    struct Settings {
      bool gives_tools;
      bool goes_on;
      NoContent no_content;
    };
    std::vector<Settings> all;
    for (const bool goes_on : {false, true}) {
      for (const bool tools : {true, false}) {
        for (const NoContent none : {NoContent::kEmpty, NoContent::kNull, NoContent::kAbsent}) {
          if (tools || !gives_tools_) all.push_back({tools, goes_on, none});
        }
      }
    }
    const auto set = [&](const Settings& settings) {
      gives_tools_ = settings.gives_tools;
      goes_on_ = settings.goes_on;
      traits_.no_content = settings.no_content;
    };
    traits_.calls = traits_.results = Fate::kRefused;
    Settings best = {gives_tools_, false, NoContent::kEmpty};
    int best_rank = 0;
    for (const Settings& settings : all) {
      set(settings);
      const int object = ask_call(true);
      const int text = ask_call(false);
      const int rank = std::max(object, text);
      if (rank <= best_rank) continue;
      best = settings;
      best_rank = rank;
      traits_.arguments_as_object = object == rank;
      traits_.arguments_as_text = text == rank;
      if (rank == 2) break;
    }
    set(best);
    return best_rank > 0;
  }

  void ask_results() {
    const auto shown = [&] {
      return shows(conversation({calls({0}), result(0)}), {kValues[0], kResults[0]});
    };
    if (shown()) return;
    const ContentForm tried =
        std::exchange(traits_.result_content, other_than(traits_.result_content));
    if (shown()) {
      traits_.results = Fate::kShown;
    } else {
      traits_.result_content = tried;
    }
  }

  // How these messages are shown. kApart: the template must also accept `apart` in an earlier turn.
  Pairing pairing_of(const OrderedJson& together, const OrderedJson& apart, const Words& words) {
    if (shows(conversation(together), words)) return Pairing::kTogether;
    const bool helps = shows(conversation(apart), words) &&
                       fate_of(conversation(apart, /*goes_on=*/true), {}) != Fate::kRefused;
    return helps ? Pairing::kApart : Pairing::kOneOnly;
  }

  void ask_pairings() {
    traits_.content_and_calls =
        pairing_of({calls({0}, kSecond), result(0)}, {assistant(kSecond), calls({0}), result(0)},
                   {kSecond, kValues[0]});
    traits_.several_calls = pairing_of({calls({0, 1}), result(0), result(1)},
                                       {calls({0}), result(0), calls({1}), result(1)},
                                       {kValues[0], kValues[1], kResults[0], kResults[1]});
  }

  // For a form that takes a string: checks whether a list of one text gives the same prompt, and
  // whether a list of two texts shows both.
  void ask_list(const OrderedJson& messages, const Words& roles, ContentForm* form) {
    if (*form == ContentForm::kParts || fate_of(messages, {}) == Fate::kRefused) return;
    const std::string prompt = prompt_;
    Words halves;
    OrderedJson whole = messages, halved = messages;
    for (size_t i = 0; i < messages.size(); ++i) {
      const auto& role = messages[i]["role"].get_ref<const std::string&>();
      if (std::ranges::find(roles, role) == roles.end()) continue;
      const auto& text = messages[i]["content"].get_ref<const std::string&>();
      const std::string_view first = std::string_view(text).substr(0, text.size() / 2);
      const std::string_view second = std::string_view(text).substr(text.size() / 2);
      whole[i]["content"] = OrderedJson::array({text_part(text)});
      halved[i]["content"] = OrderedJson::array({text_part(first), text_part(second)});
      halves.insert(halves.end(), {first, second});
    }
    const bool is_same = fate_of(whole, {}) == Fate::kShown && prompt_ == prompt;
    if (is_same && shows(halved, halves)) *form = ContentForm::kEither;
  }

  void ask_lists() {
    ask_list({user(), assistant(), user(kNext)}, {"user", "assistant"}, &traits_.turn_content);
    const OrderedJson system = turn("system", kSystem, traits_.instruction_content);
    ask_list({system, user()}, {"system"}, &traits_.instruction_content);
    ask_list(conversation({calls({0}), result(0)}), {"tool"}, &traits_.result_content);
  }

  const std::string_view source_;
  const TemplateTraits::Render render_;
  TemplateTraits traits_;
  bool gives_tools_ = false;
  bool gives_documents_ = false;
  // Whether conversation() adds an answer and the next question. Without this answer, Mistral's
  // templates refuse the conversation. With it, other templates leave out the calls, because they
  // belong to an earlier question.
  bool goes_on_ = false;
  std::string prompt_;  // The last prompt.
};

}  // namespace

OrderedJson text_part(std::string_view text) { return {{"type", "text"}, {"text", text}}; }

TemplateTraits TemplateTraits::ask(std::string_view source, Render render) {
  return Questions(source, render).ask();
}

}  // namespace lockstep
