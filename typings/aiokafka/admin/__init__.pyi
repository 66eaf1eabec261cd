from collections.abc import Mapping, Sequence
from typing import Any, overload

from aiokafka.admin.config_resource import ConfigResource
from aiokafka.protocol.admin import (
    CreateAclsRequest,
    CreateAclsResponse,
    DeleteAclsRequest,
    DeleteAclsResponse,
)
from aiokafka.structs import OffsetAndMetadata, TopicPartition

class NewTopic:
    def __init__(
        self,
        name: str,
        num_partitions: int,
        replication_factor: int,
        replica_assignments: Mapping[int, Sequence[int]] | None = None,
        topic_configs: Mapping[str, str] | None = None,
    ) -> None: ...

class RecordsToDelete:
    def __init__(self, before_offset: int) -> None: ...

class CreateTopicsResponse:
    topic_errors: Sequence[tuple[str, int, str | None]]

class DescribeConfigsResponse:
    # Each resource: error code, error message, type, name, entries; each entry: name, value, …
    resources: Sequence[tuple[int, str | None, int, str, Sequence[Sequence[Any]]]]

class DescribeGroupsResponse:
    # Each group: error code, name, state, protocol type, protocol, members, …
    groups: Sequence[Sequence[Any]]

class AIOKafkaAdminClient:
    def __init__(self, **options: Any) -> None: ...
    async def start(self) -> None: ...
    async def close(self) -> None: ...
    async def describe_cluster(self) -> dict[str, Any]: ...
    async def describe_topics(
        self, topics: Sequence[str] | None = None
    ) -> list[dict[str, Any]]: ...
    async def describe_configs(
        self, config_resources: Sequence[ConfigResource]
    ) -> list[DescribeConfigsResponse]: ...
    async def delete_topics(self, topics: Sequence[str]) -> object: ...
    async def alter_configs(self, config_resources: Sequence[ConfigResource]) -> object: ...
    async def create_topics(self, new_topics: Sequence[NewTopic]) -> CreateTopicsResponse: ...
    @overload
    async def _send_to_controller(self, request: CreateAclsRequest) -> CreateAclsResponse: ...
    @overload
    async def _send_to_controller(self, request: DeleteAclsRequest) -> DeleteAclsResponse: ...
    async def delete_records(
        self, records_to_delete: Mapping[TopicPartition, RecordsToDelete]
    ) -> dict[TopicPartition, int]: ...
    async def list_consumer_group_offsets(
        self,
        group_id: str,
        group_coordinator_id: int | None = None,
        partitions: Sequence[TopicPartition] | None = None,
    ) -> dict[TopicPartition, OffsetAndMetadata]: ...
    async def describe_consumer_groups(
        self, group_ids: Sequence[str]
    ) -> list[DescribeGroupsResponse]: ...
