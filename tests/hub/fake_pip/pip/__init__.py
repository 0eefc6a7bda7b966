# SPDX-License-Identifier: MIT
"""A pretended pip: makes the wheels that FAKE_PIP asks for instead of downloading them."""
