"""The errors of one table that a build expects. The job reports them and continues with the next table."""

from botocore.exceptions import BotoCoreError, ClientError

from core.errors import SharingError
from core.index.layout.rows import NotIndexableError
from core.index.write.writer import WriteFailedError
from core.storage.location import InvalidLocationError
from core.storage.roles import NoStorageRoleError

FAILURES: tuple[type[Exception], ...] = (
    *(SharingError, InvalidLocationError, NoStorageRoleError),
    *(WriteFailedError, NotIndexableError, ClientError, BotoCoreError),
)
