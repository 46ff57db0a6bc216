"""The bodies of the API as OpenAPI describes them. What comes back is what ``to_dict`` makes; these say what that is."""
