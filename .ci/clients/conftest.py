"""Fixtures. The addresses of the running gateway come from the environment.

A missing variable is a failure, never a skip: CI must not pass by testing less.
"""

import os

import httpx2
import openai
import pytest


def required(name):
    value = os.environ.get(name)
    if not value:
        pytest.fail(f"{name} is not set", pytrace=False)
    return value


@pytest.fixture(scope="session")
def base_url():
    return required("TOLLGATE_BASE_URL")


@pytest.fixture(scope="session")
def api_key():
    return required("TOLLGATE_API_KEY")


@pytest.fixture(scope="session")
def second_model():
    return required("TOLLGATE_SECOND_MODEL")


@pytest.fixture(scope="session")
def client(base_url, api_key):
    """The official client as in an application: these two settings and no others."""
    with openai.OpenAI(base_url=base_url, api_key=api_key) as client:
        yield client


@pytest.fixture(scope="session")
def http(base_url, api_key):
    """Plain HTTP, for details that the official client hides and requests that it does not send."""
    headers = {"authorization": f"Bearer {api_key}"}
    with httpx2.Client(base_url=base_url, headers=headers, timeout=60) as http:
        yield http
