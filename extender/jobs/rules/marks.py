"""Labels and annotations by which Volcano's users find the pods of a job, and ours."""

from __future__ import annotations

JOB_NAME = "volcano.sh/job-name"
JOB_NAMESPACE = "volcano.sh/job-namespace"
JOB_VERSION = "volcano.sh/job-version"
JOB_RETRIES = "volcano.sh/job-retry-count"
TASK = "volcano.sh/task-spec"
INDEX = "volcano.sh/task-index"
QUEUE = "volcano.sh/queue-name"
TEMPLATE = "volcano.sh/template-uid"
PARTITION = "volcano.sh/partition-id"
PREEMPTABLE = "volcano.sh/preemptable"
