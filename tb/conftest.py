"""The command line in this process, and a run that it made; Ctrl-C for processes that tests start."""

import signal

import pytest

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as in a shell's background: children would inherit it
    signal.signal(signal.SIGINT, signal.default_int_handler)


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
