"""The command line in this process, and a run that it made; Ctrl-C for processes that tests start."""

import signal

import pytest

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as in a shell's background: children would inherit it
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_terminal_summary(terminalreporter):
    """Say what tests sampled of the things that a change touches; else it would show of tests that fail only."""
    for outcome in ("passed", "failed"):
        for report in terminalreporter.getreports(outcome):
            texts = [text for name, text in report.user_properties if name == "sampled" and report.when == "call"]
            for text in texts:
                terminalreporter.write_line(text)


@pytest.fixture
def adagp(capsys, monkeypatch):
    """The command line, in this process: returns exit code, standard output and standard error."""
    import torch
    from adagp.cli.main import main

    monkeypatch.setenv("COLUMNS", "200")
    torch.set_num_threads(1)

    def run(*arguments):
        with pytest.raises(SystemExit) as ended:
            main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return ended.value.code, captured.out, captured.err

    return run


@pytest.fixture(scope="session")
def trained(tmp_path_factory):
    """The folder of a finished run on the golden model."""
    from adagp.cli.main import main
    from command_line import SMALL

    folder = tmp_path_factory.mktemp("runs") / "golden"
    with pytest.raises(SystemExit) as ended:
        main(["train", "--device", "golden", "-o", str(folder), *SMALL, "--json", str(folder.parent / "golden.json")])
    assert ended.value.code == 0
    return folder
