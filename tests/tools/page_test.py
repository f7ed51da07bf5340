#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The page at / in a real browser, against a real server: a newcomer gets an answer, stops one, and
sees the cluster.

    tests/tools/page_test.py LOCKSTEP MODEL [--screenshots FOLDER]

Exits with 77, which ctest counts as skipped, where Chromium, its driver or Selenium are missing.
"""
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
from browser import Keys, Page, run_test  # noqa: E402
from serve import Server  # noqa: E402


class ChatPage(Page):
    def wait_answered(self):
        self.wait("the answer ends", lambda: self.find("#send").is_enabled())

    def answer(self):
        answers = self.all("#messages .assistant")
        return answers[-1].text if answers else ""

    def ask(self, text):
        self.find("#prompt").send_keys(text, Keys.ENTER)


def check_chat(page):
    page.wait("the server is ready", lambda: page.find("#status").text == "ready")
    assert page.browser.switch_to.active_element == page.find("#prompt"), "the prompt has no focus"
    page.browser.execute_script("document.querySelector('details').open = true")
    page.set("#temperature", "0")
    page.set("#max_tokens", "40")
    page.ask("Tell me a story.")
    page.wait_answered()
    assert not page.all("#messages .error"), page.find("#messages .error").text
    first = page.answer()
    assert first.strip(), "no answer"
    assert "tokens/s" in page.find("#figures").text
    page.find("#again").click()
    page.wait_answered()
    assert page.answer() == first, "temperature 0 gave two answers"
    assert len(page.all("#messages .user")) == 1 and len(page.all("#messages .assistant")) == 1


def check_text_is_never_html(page):
    page.find("#clear").click()
    page.ask("<b>bold</b><script>document.title = 'run'</script>")
    page.wait_answered()
    assert page.find("#messages .user").text.startswith("<b>bold</b>")
    assert page.browser.title == "Lockstep"


# Presses Escape as soon as there is something of the answer.
ESCAPE_AT_ONCE = """
const messages = document.getElementById("messages");
new MutationObserver((_, observer) => {
  const answer = messages.querySelector(".assistant");
  if (!answer || !answer.textContent) return;
  observer.disconnect();
  document.dispatchEvent(new KeyboardEvent("keydown", {key: "Escape"}));
}).observe(messages, {childList: true, characterData: true, subtree: true});
"""


def check_stop(page):
    page.find("#clear").click()
    page.set("#max_tokens", "1000")
    page.set("#mode", "text")
    page.browser.execute_script(ESCAPE_AT_ONCE)
    page.ask("Once upon a time")
    page.wait("the answer begins", page.answer)
    page.wait_answered()
    assert page.answer().strip(), "what was written before it was stopped is gone"
    assert page.find("#figures").text == "", "it came to its end"


def check_cluster(page):
    page.wait("two ranks", lambda: len(page.all("#ranks .row")) == 2)
    page.wait("pages", lambda: " of " in page.find("#pages").text)
    facts = page.find("#facts").text
    assert "tokens generated" in facts and "numeric class" in facts
    assert len(page.all("#coordinator .row")) == 5


def check_phone(page):
    page.browser.set_window_size(390, 844)
    page.check_width()
    assert page.find("#send").is_displayed()


def take_screenshots(page, folder):
    page.find("#clear").click()
    page.set("#mode", "chat")
    page.set("#max_tokens", "256")
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
        check_text_is_never_html(page)
        check_stop(page)
        check_cluster(page)
        check_phone(page)
        page.check_console()
        if arguments.screenshots:
            take_screenshots(page, arguments.screenshots)


if __name__ == "__main__":
    run_test(__doc__, check)
