"""Finds secrets and personal data in a text with libraries that know their formats."""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import cast

import phonenumbers
from detect_secrets.plugins.artifactory import ArtifactoryDetector
from detect_secrets.plugins.aws import AWSKeyDetector
from detect_secrets.plugins.azure_storage_key import AzureStorageKeyDetector
from detect_secrets.plugins.base import RegexBasedDetector
from detect_secrets.plugins.discord import DiscordBotTokenDetector
from detect_secrets.plugins.github_token import GitHubTokenDetector
from detect_secrets.plugins.gitlab_token import GitLabTokenDetector
from detect_secrets.plugins.mailchimp import MailchimpDetector
from detect_secrets.plugins.openai import OpenAIDetector
from detect_secrets.plugins.pypi_token import PypiTokenDetector
from detect_secrets.plugins.sendgrid import SendGridDetector
from detect_secrets.plugins.slack import SlackDetector
from detect_secrets.plugins.square_oauth import SquareOAuthDetector
from detect_secrets.plugins.stripe import StripeDetector
from detect_secrets.plugins.telegram_token import TelegramBotTokenDetector
from detect_secrets.plugins.twilio import TwilioKeyDetector
from stdnum import iban, luhn
from stdnum.exceptions import ValidationError

from streams.model.screening import SensitiveSpan

_DETECTORS: tuple[RegexBasedDetector, ...] = (
    AWSKeyDetector(),
    ArtifactoryDetector(),
    AzureStorageKeyDetector(),
    DiscordBotTokenDetector(),
    GitHubTokenDetector(),
    GitLabTokenDetector(),
    MailchimpDetector(),
    OpenAIDetector(),
    PypiTokenDetector(),
    SendGridDetector(),
    SlackDetector(),
    SquareOAuthDetector(),
    StripeDetector(),
    TelegramBotTokenDetector(),
    TwilioKeyDetector(),
)
"""Detectors that know a secret by its own format. Left out: detectors by entropy or by the word
"password", which match every other text that people write; and those whose pattern takes quadratic
time in a text's length, which `_OWN_FORMS` replaces."""


def _forms(detector: RegexBasedDetector) -> Iterable[re.Pattern[str]]:
    return cast("Iterable[re.Pattern[str]]", detector.denylist)  # pyright: ignore[reportUnknownMemberType]


_PRIVATE_KEY = re.compile(
    r"-----BEGIN [A-Z ]*PRIVATE KEY( BLOCK)?-----.*?(-----END [A-Z ]*PRIVATE KEY( BLOCK)?-----|\Z)",
    re.DOTALL,
)
_OWN_FORMS = (
    _PRIVATE_KEY,
    re.compile(r"://[^\s/?#@:\[\]]{1,256}:[^\s/?#@\[\]]{1,256}@"),  # user and password of a URL
    re.compile(r"(?<![\w-])eyJ[\w-]+(?:\.[\w-]+){1,4}", re.ASCII),  # JWT, signed or encrypted
    re.compile(r"//[^\s/:]{1,256}(?::\d+)?(?:/[\w.@-]{1,64}){0,4}/:_authToken=\s*\S+"),  # of npm
)
_FORMS = (*(form for detector in _DETECTORS for form in _forms(detector)), *_OWN_FORMS)
"""A match is masked as a whole: what a pattern captures is not always the secret."""

_EMAIL = re.compile(r"(?<![\w.+-])[\w.+%-]{1,64}@(?:[\w-]{1,63}\.){1,8}[^\W\d_]{2,24}(?![\w-])")
_CARD = re.compile(r"(?<![\d.,-])\d(?:[ -]?\d){12,18}(?![\d.,]*\d)")
_IBAN = re.compile(r"\b[A-Z]{2}\d{2}(?: ?[A-Z0-9]{4}){2,7}(?: ?[A-Z0-9]{1,3})?\b")


class TextScreener:
    """Implements ports.Screener."""

    def spot(self, text: str, region: str | None) -> Sequence[SensitiveSpan]:
        return list(_spotted(text, region))


def _spotted(text: str, region: str | None) -> Iterator[SensitiveSpan]:
    for form in _FORMS:
        for found in form.finditer(text):
            yield SensitiveSpan("secret", "secret", *found.span())
    for found in _EMAIL.finditer(text):
        yield SensitiveSpan("personal", "e-mail address", *found.span())
    for found in _CARD.finditer(text):
        if luhn.is_valid(re.sub(r"\D", "", found.group())):
            yield SensitiveSpan("personal", "payment card", *found.span())
    for found in _IBAN.finditer(text):
        if length := _account(found.group()):
            yield SensitiveSpan("personal", "bank account", found.start(), found.start() + length)
    for call in phonenumbers.PhoneNumberMatcher(text, region):
        yield SensitiveSpan("personal", "telephone number", call.start, call.end)


def _account(text: str) -> int:
    """Return the length of the account number at the start of a text; words may follow directly."""
    for end in range(len(text), 14, -1):
        try:
            iban.validate(text[:end])
        except ValidationError:
            continue
        return end
    return 0
