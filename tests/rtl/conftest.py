"""Which block tests run side by side."""

from pathlib import PurePosixPath

# Those that take longest come first, so that no process is left alone with them at the end.
FIRST = ["requester", "link", "link_tx", "mgmt", "rx_ctrl"]


def folder_of(nodeid):
    """Folder of a test: its block."""
    return PurePosixPath(nodeid.split("::")[0]).parent.name


def pytest_collection_modifyitems(items):
    """Long ones first."""
    rank = {folder: place for place, folder in enumerate(FIRST)}
    items.sort(key=lambda item: rank.get(folder_of(item.nodeid), len(FIRST)))


def pytest_xdist_make_scheduler(config, log):
    """The tests of a folder share their models: they stay in one process, where none waits for another's build. Those
    of the link have a model each."""
    from xdist.scheduler import LoadScopeScheduling

    class ByModel(LoadScopeScheduling):
        """Groups by folder."""

        def _split_scope(self, nodeid):
            folder = folder_of(nodeid)
            return nodeid if folder == "link" else folder

    config.option.loadscopereorder = False
    return ByModel(config, log)
