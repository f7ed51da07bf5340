# SPDX-License-Identifier: Apache-2.0
"""Pages in a real browser, for tests. If Chromium, its driver or Selenium is missing, the import of
this module ends the test with exit code 77, which ctest counts as skipped."""
import argparse
import shutil
import sys
from pathlib import Path

from serve import PATIENCE_S

try:
    from selenium import webdriver
    from selenium.webdriver.common.by import By
    from selenium.webdriver.common.keys import Keys  # noqa: F401
    from selenium.webdriver.support.ui import WebDriverWait
except ImportError:
    print("skipped: no Selenium (Debian package python3-selenium)")
    sys.exit(77)
if not shutil.which("chromedriver"):
    print("skipped: no chromedriver (Debian package chromium-driver)")
    sys.exit(77)


def open_browser():
    options = webdriver.ChromeOptions()
    for argument in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage",
                     "--disable-gpu", "--window-size=1280,800", "--force-prefers-reduced-motion"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    service = webdriver.chrome.service.Service(shutil.which("chromedriver"))
    return webdriver.Chrome(service=service, options=options)


def run_test(doc, check):
    """Runs a test: check(browser, arguments). Arguments are lockstep, a model, and optionally the
    folder for screenshots."""
    parser = argparse.ArgumentParser(description=doc)
    parser.add_argument("lockstep")
    parser.add_argument("model")
    parser.add_argument("--screenshots")
    arguments = parser.parse_args()
    browser = open_browser()
    try:
        check(browser, arguments)
    finally:
        browser.quit()
    print(f"{Path(sys.argv[0]).stem}: passed")


class Page:
    def __init__(self, browser, url):
        self.browser = browser
        browser.get(url)

    def find(self, selector):
        return self.browser.find_element(By.CSS_SELECTOR, selector)

    def all(self, selector):
        return self.browser.find_elements(By.CSS_SELECTOR, selector)

    def run(self, script, *arguments):
        return self.browser.execute_script(script, *arguments)

    def wait(self, what, condition):
        wait = WebDriverWait(self.browser, PATIENCE_S, poll_frequency=0.02)
        wait.until(lambda _: condition(), what)

    def set(self, selector, value):
        self.run("arguments[0].value = arguments[1]", self.find(selector), value)

    def check_width(self):
        width = self.run("return document.documentElement.scrollWidth")
        assert width <= self.run("return window.innerWidth"), "the page scrolls sideways"

    def check_console(self):
        wrong = [entry["message"] for entry in self.browser.get_log("browser")
                 if entry["level"] == "SEVERE"]
        assert not wrong, wrong
