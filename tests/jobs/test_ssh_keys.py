"""The key pairs: vectors of RFC 8032, and OpenSSH's own reading of what we write."""

import shutil
import subprocess

import pytest

from extender.jobs import ssh_keys
from tests.conftest import IN_CI

#: RFC 8032, 7.1: secret key, public key
VECTORS = [
    (
        "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60",
        "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a",
    ),
    (
        "4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb",
        "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c",
    ),
    (
        "c5aa8df43f9f837bedb7442f31dcb7b166d38535076f094b85ce3a2e0b4458f7",
        "fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb911548908025",
    ),
]


@pytest.mark.parametrize(("seed", "public"), VECTORS)
def test_the_public_half_is_that_of_the_standard(seed, public):
    assert ssh_keys.public_half(bytes.fromhex(seed)).hex() == public


@pytest.mark.skipif(
    shutil.which("ssh-keygen") is None and not IN_CI, reason="there is no ssh-keygen here to read the key"
)
@pytest.mark.parametrize("comment", ["team/train", "x", "日本"])
def test_openssh_reads_the_private_key_and_finds_the_same_public_one(tmp_path, comment):
    made = ssh_keys.pair(bytes(range(32)), comment)
    file = tmp_path / "key"
    file.write_text(made.private)
    file.chmod(0o600)
    done = subprocess.run(["ssh-keygen", "-y", "-f", file], capture_output=True, text=True, check=True)
    assert done.stdout.split()[:2] == made.public.split()[:2]
    assert made.public.endswith(f" {comment}\n")
