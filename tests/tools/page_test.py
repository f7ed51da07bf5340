#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The page at / in a real browser, against a real server: a new user gets an answer, stops one, and
sees the cluster; the page asks for an API key, and reports that the server is gone.

    tests/tools/page_test.py LOCKSTEP MODEL [--screenshots FOLDER]

Exits with 77, which ctest counts as skipped, if Chromium, its driver or Selenium are missing.
"""
import json
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
from browser import Keys, Page, run_test  # noqa: E402
from serve import Server  # noqa: E402

KEY = "a-key-of-the-test"
ASK_FOR_KEY = "enter this server's API key"
SILENT = "the server does not answer"

# Records the bodies that the page sends.
KEEP_BODIES = """
window.bodies = [];
window.plainFetch ??= window.fetch;
window.fetch = (path, options) => {
  if (options.body) window.bodies.push(options.body);
  return window.plainFetch(path, options);
};
"""


class ChatPage(Page):
    def wait_answered(self):
        self.wait("the answer ends", lambda: self.find("#send").is_enabled())

    def answer(self):
        answers = self.all("#messages .assistant")
        return answers[-1].text if answers else ""

    def shown_answer(self):
        """The text of the first answer, without the note that it was cut."""
        return self.run("return document.querySelector('#messages .assistant').firstChild.data")

    def ask(self, text):
        self.find("#prompt").send_keys(text, Keys.ENTER)

    def keep_bodies(self):
        self.run(KEEP_BODIES)

    def bodies(self):
        """The bodies of the requests since keep_bodies()."""
        return [json.loads(body) for body in self.run("return window.bodies")]

    def wait_status(self, text):
        self.wait(f"the status is {text}", lambda: self.find("#status").text == text)

    def is_stale(self):
        return float(self.find("#cluster").value_of_css_property("opacity")) < 1


def check_chat(page):
    page.wait_status("ready")
    assert not page.is_stale()
    assert page.browser.switch_to.active_element == page.find("#prompt"), "the prompt has no focus"
    page.browser.execute_script("document.querySelector('details').open = true")
    page.set("#temperature", "0")
    page.set("#max_tokens", "40")
    page.ask("Tell me a story.")
    page.wait_answered()
    assert not page.all("#messages .error"), page.find("#messages .error").text
    first = page.answer()
    assert first.strip(), "no answer"
    assert first.endswith("cut at max tokens"), first
    assert "tokens/s" in page.find("#figures").text
    page.find("#again").click()
    page.wait_answered()
    assert page.answer() == first, "temperature 0 gave two answers"
    assert len(page.all("#messages .user")) == 1 and len(page.all("#messages .assistant")) == 1


def check_leading_blank_is_kept_but_not_shown(page):
    page.find("#clear").click()
    page.keep_bodies()
    page.ask("Once upon a time")
    page.wait_answered()
    shown = page.shown_answer()
    page.ask("And then?")
    page.wait_answered()
    kept = page.bodies()[-1]["messages"][1]["content"]
    assert kept[0] == " " and kept.lstrip() == shown, (kept, shown)


def check_full_context(page):
    page.find("#clear").click()
    page.set("#max_tokens", "1000")
    page.ask("Once upon a time " * 250)
    page.wait_answered()
    assert page.answer().endswith("cut: the context is full"), page.answer()
    page.set("#max_tokens", "40")


def check_hints(page):
    for mode, begin in (("text", "Begin a text"), ("chat", "Ask something")):
        page.set("#mode", mode)
        page.run("document.getElementById('mode').dispatchEvent(new Event('change'))")
        hint = page.find("#prompt").get_attribute("placeholder")
        assert hint.startswith(begin), hint


def check_text_is_never_html(page):
    page.find("#clear").click()
    page.ask("<b>bold</b><script>document.title = 'run'</script>")
    page.wait_answered()
    assert page.find("#messages .user").text.startswith("<b>bold</b>")
    assert page.browser.title == "Lockstep"


# Runs a script as soon as the answer has text.
AT_ONCE = """
const messages = document.getElementById("messages");
new MutationObserver((_, observer) => {
  const answer = messages.querySelector(".assistant");
  if (!answer || !answer.textContent) return;
  observer.disconnect();
  %s
}).observe(messages, {childList: true, characterData: true, subtree: true});
"""
ESCAPE_AT_ONCE = AT_ONCE % """
  document.dispatchEvent(new KeyboardEvent("keydown", {key: "Escape"}));
"""
CLEAR_AND_ASK_AT_ONCE = AT_ONCE % """
  document.getElementById("clear").click();
  document.getElementById("prompt").value = "A new story.";
  document.getElementById("send").click();
"""


def check_stop(page):
    page.find("#clear").click()
    page.set("#max_tokens", "1000")
    page.set("#mode", "text")
    page.browser.execute_script(ESCAPE_AT_ONCE)
    page.ask("Once upon a time")
    page.wait("the answer begins", page.answer)
    page.wait_answered()
    assert page.answer().strip(), "the text written before the stop is gone"
    assert page.find("#figures").text == "", "the answer was not stopped"


def check_clear_drops_the_answer_that_is_written(page):
    page.find("#clear").click()
    page.set("#max_tokens", "400")
    page.set("#mode", "chat")
    page.keep_bodies()
    page.run(CLEAR_AND_ASK_AT_ONCE)
    page.ask("An old story.")
    page.wait("the new question is sent", lambda: len(page.bodies()) == 2)
    page.wait_answered()
    assert page.bodies()[1]["messages"] == [{"role": "user", "content": "A new story."}]
    assert [one.text for one in page.all("#messages .user")] == ["A new story."]
    assert len(page.all("#messages .assistant")) == 1 and not page.all("#messages .error")
    assert "tokens/s" in page.find("#figures").text, "the old answer's end counted as the new one's"
    shown = page.shown_answer()
    page.ask("Go on.")
    page.wait_answered()
    kept = [turn["content"].lstrip() for turn in page.bodies()[2]["messages"]]
    assert kept == ["A new story.", shown, "Go on."], kept


def check_cluster(page):
    page.wait("two ranks", lambda: len(page.all("#ranks .row")) == 2)
    page.wait("pages", lambda: " of " in page.find("#pages").text)
    facts = page.find("#facts").text
    assert "tokens generated" in facts and "numeric class" in facts
    assert len(page.all("#coordinator .row")) == 5
    assert len(page.all("#legend span")) == 4, "a colour of the bars is not in the legend"


def check_phone(page):
    page.browser.set_window_size(390, 844)
    page.check_width()
    assert page.find("#send").is_displayed()


def check_silent_server(page):
    """Checks the page after its server has ended."""
    page.wait_status(SILENT)
    assert page.is_stale()
    page.ask("Is anybody there?")
    page.wait_answered()
    assert page.find("#messages .error").text == SILENT


def check_api_keys(browser, arguments):
    with tempfile.NamedTemporaryFile("w") as keys:
        keys.write(f"tester {KEY}\n")
        keys.flush()
        with Server(arguments.lockstep, arguments.model, "--api-keys", keys.name) as server:
            page = ChatPage(browser, f"http://{server.address}/")
            page.wait_status(ASK_FOR_KEY)
            field = page.find("#key")
            assert field.is_displayed(), "the settings are closed"
            assert page.browser.switch_to.active_element == field, "the key has no focus"
            page.ask("Once upon a time")
            page.wait_answered()
            assert page.find("#messages .error").text == ASK_FOR_KEY
            page.wait("the key has the focus",
                      lambda: page.browser.switch_to.active_element == field)
            page.keep_bodies()
            # The click comes at once, so the page cannot know the model's name yet.
            page.run("arguments[0].value = arguments[1]; document.getElementById('again').click();",
                     field, KEY)
            page.wait_answered()
            assert page.answer() and not page.all("#messages .error")
            assert "model" not in page.bodies()[0]
            page.wait_status("ready")


def take_screenshots(page, folder):
    page.find("#clear").click()
    page.set("#mode", "chat")
    page.set("#max_tokens", "512")
    page.browser.execute_script("document.querySelector('details').open = false")
    page.ask("Tell me a story.")
    page.wait_answered()
    page.browser.save_screenshot(f"{folder}/phone.png")
    page.browser.set_window_size(1280, 800)
    page.browser.save_screenshot(f"{folder}/light.png")
    page.find("#theme").click()
    page.browser.save_screenshot(f"{folder}/dark.png")


def check(browser, arguments):
    with Server(arguments.lockstep, arguments.model) as server:
        page = ChatPage(browser, f"http://{server.address}/")
        check_chat(page)
        check_leading_blank_is_kept_but_not_shown(page)
        check_full_context(page)
        check_hints(page)
        check_text_is_never_html(page)
        check_stop(page)
        check_clear_drops_the_answer_that_is_written(page)
        check_cluster(page)
        check_phone(page)
        page.check_console()
        if arguments.screenshots:
            take_screenshots(page, arguments.screenshots)
    check_silent_server(page)
    check_api_keys(browser, arguments)


if __name__ == "__main__":
    run_test(__doc__, check)
