"""kopf's credentials, from where ours come from: read anew each time it asks."""

import kopf

from ebbtide.cluster.client import Login, load_configuration

_SCHEME = "bearer "


async def log_in(login: Login) -> kopf.ConnectionInfo:
    """Read the credentials; kopf asks again when the server does not know them any more."""
    found = await load_configuration(login)
    token = found.api_key.get("BearerToken")
    if token and token.lower().startswith(_SCHEME):
        token = token[len(_SCHEME) :]
    return kopf.ConnectionInfo(
        server=found.host,
        ca_path=found.ssl_ca_cert,
        insecure=not found.verify_ssl,
        token=token,
        certificate_path=found.cert_file,
        private_key_path=found.key_file,
        proxy_url=found.proxy,
    )
