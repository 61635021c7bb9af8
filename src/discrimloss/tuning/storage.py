"""The database that workers share, and its error messages."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import optuna
import sqlalchemy
import sqlalchemy.exc
from optuna.exceptions import ExperimentalWarning, StorageInternalError
from optuna.storages import RDBStorage, RetryHeartbeatStaleTrialCallback
from optuna.study import Study
from optuna.trial import FrozenTrial
from sqlalchemy.engine import URL, make_url

from discrimloss.errors import DiscrimLossError

SQLITE_PATIENCE = 60.0
"""Seconds to wait while another worker writes to the same file."""
ATTEMPTS = 8
"""Number of attempts to open a new database that several workers open at once."""
MOST_REPETITIONS = 3
"""Maximum number of repetitions of a dead worker's trial: the trial itself may kill workers."""
DRIVER_PACKAGES = {
    "psycopg": "'psycopg[binary]'",
    "psycopg2": "psycopg2-binary",
    "MySQLdb": "mysqlclient",
    "mysql": "mysql-connector-python",
}
"""Packages to install for modules, if their names differ or the usual one needs a compiler."""


def repeat_lost_trial(study: Study, trial: FrozenTrial) -> None:
    """Enqueue the trial of a dead worker again, unless it was repeated too often."""
    with experimental_is_fine():
        RetryHeartbeatStaleTrialCallback(MOST_REPETITIONS)(study, trial)


@contextmanager
def experimental_is_fine() -> Iterator[None]:
    """Ignore Optuna's warnings that heartbeats are experimental."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ExperimentalWarning)
        yield


def open_storage(url: str, lost_after: int) -> RDBStorage:
    """Connect to a database, and create its tables if it has none.

    Raises:
        DiscrimLossError: the URL is wrong, the driver is missing, or the database fails.
    """
    optuna.logging.set_verbosity(optuna.logging.ERROR)  # the command reports errors itself
    address = _address(url)
    options: dict[str, Any] = {}
    if address.get_backend_name() == "sqlite":
        options["connect_args"] = {"timeout": SQLITE_PATIENCE}
    else:
        options["pool_pre_ping"] = True  # servers close connections that are idle for an hour
    try:
        with storage_errors(url), experimental_is_fine():
            return _connect(url, options, lost_after)
    except ImportError as error:
        module = getattr(error.__cause__, "name", None) or address.get_backend_name()
        raise DiscrimLossError(
            f"--storage {shown(url)} needs a database driver that is not installed: "
            f"pip install {DRIVER_PACKAGES.get(module.partition('.')[0], module)}"
        ) from error


def _connect(url: str, engine_options: dict[str, Any], lost_after: int) -> RDBStorage:
    for attempt in range(ATTEMPTS):
        try:
            return RDBStorage(
                url,
                engine_kwargs=engine_options,
                heartbeat_interval=max(1, lost_after // 4),
                grace_period=lost_after,
                heartbeat_stale_trial_callback=repeat_lost_trial,
            )
        except sqlalchemy.exc.DBAPIError as error:
            # Another worker is creating the same tables: try again.
            is_race = isinstance(error, sqlalchemy.exc.IntegrityError) or "exists" in str(
                error.orig
            )
            if not is_race or attempt == ATTEMPTS - 1:
                raise
        time.sleep(0.2 * (attempt + 1))
    raise AssertionError("unreachable")


def trials_with_heartbeat(study: Study) -> set[int]:
    """Return the storage ids of all trials that ever had a heartbeat."""
    storage: Any = study._storage
    backend = getattr(storage, "_backend", storage)  # Optuna wraps the storage in a cache
    with backend.engine.connect() as connection:
        found = connection.execute(sqlalchemy.text("SELECT trial_id FROM trial_heartbeats"))
        return {int(row[0]) for row in found}


@contextmanager
def storage_errors(url: str) -> Iterator[None]:
    """Turn errors of the database into a `DiscrimLossError` of one sentence."""
    try:
        yield
    except (sqlalchemy.exc.SQLAlchemyError, StorageInternalError) as error:
        cause: BaseException = error
        while cause.__cause__ is not None:
            cause = cause.__cause__
        reason = " ".join(str(getattr(cause, "orig", None) or cause).split()).rstrip(".")
        if "database is locked" in reason:
            advice = "end what else has the file open, or share the work through a database server"
        else:
            advice = "check the address, and that you may write there"
        raise DiscrimLossError(f"cannot use --storage {shown(url)} ({reason}): {advice}") from error
    except RuntimeError as error:  # the tables are of another version of Optuna
        if "schema" not in str(error) and "optuna storage upgrade" not in str(error):
            raise
        raise DiscrimLossError(
            f"--storage {shown(url)} was made by another version of Optuna: "
            "use that version, or choose another storage"
        ) from error


def shown(url: str) -> str:
    """Return a URL without its password."""
    return make_url(url).render_as_string(hide_password=True)


def _address(url: str) -> URL:
    try:
        address = make_url(url)
        address.get_dialect()
    except sqlalchemy.exc.NoSuchModuleError as error:
        raise DiscrimLossError(
            f"--storage {shown(url)}: there is no kind of database named "
            f"{make_url(url).drivername!r}; valid are e.g. sqlite:///FILE and "
            "postgresql+psycopg://USER:PASSWORD@HOST/DATABASE"
        ) from error
    except sqlalchemy.exc.ArgumentError as error:
        raise DiscrimLossError(
            "--storage must be a database URL, e.g. sqlite:///FILE or "
            "postgresql+psycopg://USER:PASSWORD@HOST/DATABASE"
        ) from error
    except ImportError:
        return make_url(url)  # the driver is missing: connecting reports it
    if address.get_backend_name() == "sqlite" and address.database in (None, "", ":memory:"):
        raise DiscrimLossError("--storage sqlite:// keeps nothing: name a file, sqlite:///FILE")
    return address
