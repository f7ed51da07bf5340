#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The page of `lockstep inspect --html` in a real browser: layers fold, operators open, links work,
the keyboard is sufficient, and nothing is loaded.

    tests/tools/inspect_page_test.py LOCKSTEP MODEL [--screenshots FOLDER]

Exits with 77, which ctest counts as skipped, if Chromium, its driver or Selenium are missing.
"""
import json
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
from browser import Keys, Page, run_test  # noqa: E402

# A name that would be an element if it were read as HTML, and end the script if not escaped.
HOSTILE = "a <img src=x onerror=alert(1)> <!--"
LARGE = {
    "architectures": ["Qwen3MoeForCausalLM"], "hidden_size": 64, "num_hidden_layers": 80,
    "num_attention_heads": 8, "num_key_value_heads": 2, "head_dim": 8, "intermediate_size": 96,
    "moe_intermediate_size": 32, "num_experts": 64, "num_experts_per_tok": 4,
    "norm_topk_prob": True, "vocab_size": 1000, "max_position_embeddings": 4096,
    "rms_norm_eps": 1e-6, "rope_theta": 10000.0, "tie_word_embeddings": False,
    "decoder_sparse_step": 1, "mlp_only_layers": [], "hidden_act": "silu",
}


class ProgramPage(Page):
    def layer(self, name):
        return next(one for one in self.all("details.layer")
                    if self.text_of(one.find_element("css selector", "summary .name")) == name)

    def text_of(self, one):
        return one.get_attribute("textContent")

    def rows(self):
        return self.run("return [...document.querySelectorAll('.operator')]"
                        ".filter((row) => row.checkVisibility())")

    def row(self, name):
        return next(row for row in self.rows() if row.get_attribute("title") == name)

    def detail(self):
        return self.find("#detail").text

    def press(self, *keys):
        for key in keys:
            self.browser.switch_to.active_element.send_keys(key)

    def focused(self):
        return self.text_of(self.browser.switch_to.active_element)


def inspect(lockstep, model, file, *flags):
    subprocess.run([lockstep, "inspect", model, "--html", file, *flags], check=True,
                   stderr=subprocess.PIPE)
    return file.as_uri()


def check_layers(page, plan):
    layers = page.all("details.layer")
    names = [page.text_of(layer.find_element("css selector", ".name")) for layer in layers]
    assert names[:2] == ["before the layers", "layer 0"], names
    assert names[-1] == "after the layers", names
    assert not page.all(".operator"), "operators of closed layers were made"
    page.find("#open").click()
    page.wait("all layers open", lambda: len(page.all("details[open]")) == len(layers))
    rank = plan["ranks"][1]
    assert len(page.all(".meets")) == rank["all_gathers"] + rank["all_reduces"]
    facts = page.find("#totals").text
    assert f"{rank['all_gathers']} all_gather, {rank['all_reduces']} all_reduce" in facts, facts
    assert len(page.rows()) == int(page.find("#totals div:nth-child(4) dd").text)
    page.find("#close").click()
    assert not page.rows()


def check_operator(page):
    page.layer("layer 1").find_element("css selector", "summary").click()
    page.wait("rows", page.rows)
    page.row("model.layers.1.self_attn.o_proj").click()
    text = page.detail()
    for wanted in ("x * weight^T", "LINEAR_WEIGHT", "model.layers.1.self_attn.o_proj.weight",
                   "split over hidden", "one token after", "read by"):
        assert wanted in text, (wanted, text)
    assert "#i" in page.browser.current_url
    tensor = page.find("#detail .tensor span")
    assert 0 < tensor.size["height"] < page.find("#detail .tensor").size["height"]
    page.find("#detail li a").click()  # Opens a neighbour in the graph.
    page.wait("another operator", lambda: page.detail() != text)
    assert page.find(".operator[aria-expanded=true]") == page.browser.switch_to.active_element
    page.press(Keys.ESCAPE)
    assert not page.all("#detail")


def check_costs(page):
    before = page.find("#totals").text
    page.find("#step").send_keys(Keys.ARROW_DOWN)
    page.wait("other costs", lambda: page.find("#totals").text != before)


def check_keyboard(page):
    page.find("#close").click()
    page.find("h1").click()
    page.press("/")
    assert page.browser.switch_to.active_element == page.find("#find")
    page.press("model.norm")
    page.wait("matches", lambda: page.find("#found").text == f"{len(page.rows())} operators")
    assert any("model.norm" in page.text_of(row) for row in page.rows())
    assert len(page.rows()) < 10, "operators that do not match are still shown"
    page.press(Keys.ESCAPE)
    page.find("#close").click()
    page.find("h1").click()
    page.press(Keys.ARROW_DOWN)  # To the first layer, which Right opens.
    assert "before the layers" in page.focused()
    page.press(Keys.ARROW_RIGHT, Keys.ARROW_DOWN)
    assert "embed" in page.focused()
    page.press(Keys.ENTER)
    assert "EMBEDDING" in page.detail()
    page.press(Keys.ARROW_LEFT)
    assert not page.all("#detail")
    page.press(Keys.ARROW_LEFT, Keys.ARROW_LEFT)
    assert "before the layers" in page.focused() and not page.rows()


def check_large(page):
    """80 layers of 64 experts: few elements are made at first, and names are not HTML."""
    assert page.find("h1").text == HOSTILE and HOSTILE in page.browser.title
    assert not page.all("img"), "a name became an element"
    assert len(page.all("details.layer")) == 82
    made = page.run("return document.querySelectorAll('*').length")
    assert made < 1500, f"{made} elements before any layer was opened"
    page.run("location.hash = '#i500'")
    page.wait("the operator", lambda: page.all("#i500[aria-expanded=true]"))
    page.press("/", "experts.{0-63}.up_proj")
    page.wait("experts", lambda: "80 operators" in page.find("#found").text)
    page.rows()[0].click()
    assert "64 tensors, of each" in page.detail()


def check_phone(page):
    page.browser.set_window_size(390, 844)
    page.check_width()
    page.find("#open").click()
    page.rows()[3].click()
    page.check_width()
    detail, row = page.find("#detail"), page.find(".operator[aria-expanded=true]")
    assert detail.location["y"] >= row.location["y"] + row.size["height"] - 1, "not below its row"
    page.browser.set_window_size(1280, 800)


def check_is_alone(page):
    assert page.run("return performance.getEntriesByType('resource').length") == 0
    page.check_console()


def take_screenshots(page, folder):
    page.browser.set_window_size(1280, 800)
    page.find("#close").click()
    page.layer("layer 1").find_element("css selector", "summary").click()
    page.wait("rows", page.rows)
    page.row("model.layers.1.self_attn.o_proj").click()
    page.browser.save_screenshot(f"{folder}/inspect_light.png")
    page.find("#theme").click()
    page.browser.save_screenshot(f"{folder}/inspect_dark.png")
    page.browser.set_window_size(390, 844)
    page.run("document.activeElement.scrollIntoView()")
    page.browser.save_screenshot(f"{folder}/inspect_phone.png")


def check_pages(browser, arguments, folder):
    flags = ("--workers", "3", "--rank", "1")
    plan = json.loads(subprocess.run(
        [arguments.lockstep, "plan", arguments.model, "--workers", "3", "--json"], check=True,
        capture_output=True).stdout)
    page = ProgramPage(browser, inspect(arguments.lockstep, arguments.model,
                                        folder / "demo.html", *flags))
    check_layers(page, plan)
    check_operator(page)
    check_costs(page)
    check_keyboard(page)
    check_phone(page)
    check_is_alone(page)
    if arguments.screenshots:
        take_screenshots(page, arguments.screenshots)
    model = folder / HOSTILE
    model.mkdir()
    (model / "config.json").write_text(json.dumps(LARGE))
    page = ProgramPage(browser, inspect(arguments.lockstep, model, folder / "large.html", *flags))
    check_large(page)
    check_is_alone(page)


def check(browser, arguments):
    with tempfile.TemporaryDirectory() as folder:
        check_pages(browser, arguments, Path(folder))


if __name__ == "__main__":
    run_test(__doc__, check)
