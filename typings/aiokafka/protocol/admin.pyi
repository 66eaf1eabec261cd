from collections.abc import Sequence

class CreateAclsResponse:
    creation_responses: Sequence[tuple[int, str | None]]

class DeleteAclsResponse:
    # Each filter: error code, error message, what it has removed
    filter_responses: Sequence[tuple[int, str | None, Sequence[object]]]

class _AclsRequest:
    def __init__(
        self,
        resource_type: int,
        resource_name: str,
        resource_pattern_type_filter: int,
        principal: str,
        host: str,
        operation: int,
        permission_type: int,
    ) -> None: ...

class CreateAclsRequest(_AclsRequest): ...
class DeleteAclsRequest(_AclsRequest): ...
