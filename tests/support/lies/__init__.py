"""The faults of liar.py, a file for each concern. They are told of in this order by its help."""
from . import versions, statuses, pages, ranges, changes, bodies, redirects, nonsense, s3  # noqa: F401
from . import tls, several, archives  # noqa: F401
