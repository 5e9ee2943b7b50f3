#!/usr/bin/env python3
"""Runs TOSA's conformance tests of convolutions and pools with gradkern, in TOSA's own runner and judged by its own verifier.

    tosa_suite.py --driver <library made of driver.cpp> --directory <where the tests are generated> [--sample] [--jobs N]

They are the positive tests of floating-point types in version 1.0.2 of the specification: profile tosa-pro-fp and extension
tosa-ext-bf16. TOSA's generator makes them (once for a directory: 1 GB), and its reference model computes each exact result and
its bounds, which takes most of the time. Exit code: 0 if all pass, 77 if the package tosa-tools is not here.
"""

import argparse
import collections
import importlib.metadata
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import xml.etree.ElementTree
from pathlib import Path

try:
    PACKAGE = "tosa-tools " + importlib.metadata.version("tosa-tools")
except importlib.metadata.PackageNotFoundError as e:
    print(f"skipped: {e}")
    sys.exit(77)

OPERATORS = ["conv2d", "conv3d", "depthwise_conv2d", "transpose_conv2d", "avg_pool2d", "max_pool2d"]
VERSION = "1.0.2"
COUNTS = {"tosa-tools 2026.8.0": 4995}  # of all tests
HERE = Path(__file__).resolve().parent


def one_shape(arguments):
    """The arguments of the generator with the first of their shapes alone."""
    first = arguments.index("--target-shape") + 1
    last = next((i for i in range(first, len(arguments)) if arguments[i].startswith("--")), len(arguments))
    return arguments[: first + 1] + arguments[last:]


def sample_of(config):
    """A few tests of each operator and type, none with the large shapes, whose exact results take seconds."""
    for operator in OPERATORS:
        groups = config[operator]["generation"]
        for name in set(groups) - {"tosa-pro-fp", "tosa-ext-bf16"}:
            del groups[name]
        for group in groups.values():
            group["generator_args"] = [one_shape(a) for a in group["generator_args"] if "--no-special-tests" not in a]
        for name, selection in config[operator]["selection"].items():
            # The last of shape, kernel and type of sums (a max pool has none).
            config[operator]["selection"][name] = {"permutes": selection["permutes"][-1:], "maximum": 1}
    return config


def run(command, log):
    """Runs a program of the package, which looks for others of it in PATH and for the runner's module in PYTHONPATH."""
    paths = {"PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]), "PYTHONPATH": str(HERE)}
    with open(log, "w", encoding="utf-8") as file:
        command = [sys.executable, "-m", *command]
        if subprocess.run(command, stdout=file, stderr=subprocess.STDOUT, env=os.environ | paths).returncode != 0:
            sys.exit(f"{command[2]} failed; see {log}")


def generate(options):
    """The tests, unless they are here already. Returns their directory."""
    tests = options.directory / "tests"
    done = options.directory / "generated_by"
    made_by = f"{PACKAGE}, specification {VERSION}"
    if done.is_file() and done.read_text() == made_by:
        return tests
    shutil.rmtree(options.directory, ignore_errors=True)
    options.directory.mkdir(parents=True)
    config = Path(importlib.util.find_spec("conformance.model_files").origin).parent / "cts-config_v1.0.json"
    if options.sample:
        sample = options.directory / "sample.json"
        sample.write_text(json.dumps(sample_of(json.loads(config.read_text()))))
        config = sample
    print("generates the tests", flush=True)
    build = options.directory / "build"
    command = ["conformance.tosa_verif_conformance_generator", "--operators", *OPERATORS, "--profile", "tosa-pro-fp"]
    command += ["--extension", "tosa-ext-bf16", "--test-type", "positive", "--tosa-version", VERSION]
    command += ["--cts-config", config, "--output-type", "binary", "--build-directory", build]
    run([str(c) for c in command + ["--output-directory", tests, "-j", options.jobs]], options.directory / "generator.log")
    shutil.rmtree(build)
    done.write_text(made_by)
    return tests


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--driver", required=True, type=Path)
    parser.add_argument("--directory", required=True, type=Path)
    parser.add_argument("--sample", action="store_true", help="a few tests of each operator")
    parser.add_argument("--jobs", default=os.cpu_count(), type=int, help="tests at the same time")
    options = parser.parse_args()
    options.directory = options.directory.resolve()
    os.environ["GRADKERN_CONFORMANCE_DRIVER"] = str(options.driver.resolve())

    tests = generate(options)
    print(f"{PACKAGE}, specification {VERSION}", flush=True)
    verdicts = options.directory / "verdicts.xml"
    verdicts.unlink(missing_ok=True)
    command = ["runner.tosa_verif_run_tests", "--recursive", "--test", tests, "--jobs", options.jobs, "--no-color"]
    command += ["--sut-module", "gradkern_runner", "--xunit-file", verdicts]
    run([str(c) for c in command], options.directory / "runner.log")

    counts = collections.Counter()
    for case in xml.etree.ElementTree.parse(verdicts).iterfind("testsuite[@name='gradkern_runner']/testcase"):
        name = Path(case.get("name")).name
        operator = re.match("|".join(OPERATORS), name).group()
        verdict = "passed" if len(case) == 0 else "FAILED"
        counts[operator, verdict] += 1
        if verdict == "FAILED":
            print(f"FAILED: {name}: {case[0].get('message') or case[0].text}")
    for operator in OPERATORS:
        print(f"{operator}: {counts[operator, 'passed']} passed, {counts[operator, 'FAILED']} FAILED")
    total = sum(counts.values())
    expected = total if options.sample else COUNTS.get(PACKAGE, total)
    failed = sum(counts[operator, "FAILED"] for operator in OPERATORS)
    print(f"all: {total - failed} passed, {failed} FAILED")
    if total != expected:
        print(f"expected {expected} tests")
    return 1 if failed or total != expected or not all(counts[o, "passed"] for o in OPERATORS) else 0


if __name__ == "__main__":
    sys.exit(main())
