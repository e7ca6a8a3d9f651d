"""One settings file for every environment; what differs comes from environment variables."""

from datetime import timedelta

from csp.constants import NONE, SELF
from environs import validate

from portal.env import (
    BASE_DIR,
    class_review,
    credential_keys,
    data_dir,
    database,
    email,
    env,
    organisation_zone,
    redis_url,
    secret_key,
)
from portal.identity import identity_provider

# --- what is this instance -------------------------------------------------------------------

DEBUG = env.bool("CLAIMDESK_DEBUG", False)
DATA_DIR = data_dir()
SECRET_KEY = secret_key()
ALLOWED_HOSTS = env.list("CLAIMDESK_ALLOWED_HOSTS", ["localhost", "127.0.0.1", "[::1]"])
CSRF_TRUSTED_ORIGINS: list[str] = env.list("CLAIMDESK_TRUSTED_ORIGINS", [])
CREDENTIAL_KEYS = credential_keys()
ORGANISATION = env.str("CLAIMDESK_ORGANISATION", "Claimdesk")
# The IANA time zone in which months of cost begin and end.
ORGANISATION_ZONE = organisation_zone()

# --- applications ----------------------------------------------------------------------------

INSTALLED_APPS = [
    "portal.apps.PortalConfig",
    "portal.accounts",
    "portal.idempotency",
    "inventory",
    "claims",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.humanize",
    "whitenoise.runserver_nostatic",
    "django.contrib.staticfiles",
    "django.forms",
    "allauth",
    "allauth.account",
    "allauth.socialaccount",
    "allauth.mfa",
    "csp",
    "django_htmx",
    "template_partials",
    "rest_framework",
    "knox",
    "drf_spectacular",
]

MIDDLEWARE = [
    "portal.health.HealthMiddleware",
    "portal.work_ids.RequestIdMiddleware",
    "portal.tracing.answers.TracingMiddleware",
    "portal.measures.MeasuringMiddleware",
    "django.middleware.security.SecurityMiddleware",
    "csp.middleware.CSPMiddleware",
    "portal.headers.PermissionsPolicyMiddleware",
    "portal.limits.LimitsMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.locale.LocaleMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "portal.accounts.middleware.SignInMiddleware",
    "portal.accounts.middleware.PersonMiddleware",
    "portal.accounts.required_factor.RequiredFactorMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "allauth.account.middleware.AccountMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
]

ROOT_URLCONF = "portal.urls"
WSGI_APPLICATION = "portal.wsgi.application"

TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.template.context_processors.i18n",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "portal.accounts.notifications.context.bell",
            ],
        },
    }
]
FORM_RENDERER = "django.forms.renderers.TemplatesSetting"

# --- database, broker, jobs ------------------------------------------------------------------

DATABASES = {"default": database()}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

REDIS_URL = redis_url()
CACHES = {
    "default": {
        "BACKEND": "portal.cache.ValkeyOrMemory",
        "LOCATION": REDIS_URL,
        # A server that does not answer must not keep a page waiting for long.
        "OPTIONS": {"socket_connect_timeout": 2, "socket_timeout": 2},
    }
}

CELERY_BROKER_URL = REDIS_URL
CELERY_TASK_IGNORE_RESULT = True
CELERY_TASK_ACKS_LATE = True
CELERY_TASK_REJECT_ON_WORKER_LOST = True
CELERY_WORKER_PREFETCH_MULTIPLIER = 1
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
# Longer than any shift of a follower, so that no broker hands a running task to a second worker.
CELERY_BROKER_TRANSPORT_OPTIONS = {"visibility_timeout": 3600}
CELERY_TASK_DEFAULT_QUEUE = "default"
CELERY_TASK_ROUTES = {"inventory.tasks.follow_cluster": {"queue": "follow"}}
CELERY_TIMEZONE = "UTC"

# Where each process serves what it counts to Prometheus; 0 = nowhere, and then a web server tells it at
# /api/v1/metrics/ too.
METRICS_PORT = env.int("CLAIMDESK_METRICS_PORT", 0)
METRICS_ADDRESS = env.str("CLAIMDESK_METRICS_ADDRESS", "127.0.0.1")

# --- the mirror ------------------------------------------------------------------------------

FOLLOWER_SHIFT = timedelta(seconds=env.int("CLAIMDESK_FOLLOWER_SHIFT_SECONDS", 300))
FOLLOWER_LEASE = timedelta(seconds=env.int("CLAIMDESK_FOLLOWER_LEASE_SECONDS", 20))
FULL_LIST_INTERVAL = timedelta(seconds=env.int("CLAIMDESK_FULL_LIST_SECONDS", 600))
# User ids that may own CDI spec files and their directories on nodes.
CDI_OWNERS = frozenset(env.list("CLAIMDESK_CDI_OWNERS", [0], subcast=int))
CLUSTER_TIMEOUT = timedelta(seconds=env.int("CLAIMDESK_CLUSTER_TIMEOUT_SECONDS", 10))

# For how many minutes things have to last until they are findings, where this desk wants it otherwise than
# `inventory.findings.thresholds` has it: "pending=30,taint_age=2880".
FINDING_MINUTES: dict[str, float] = env.dict("CLAIMDESK_FINDING_MINUTES", {}, subcast_values=float)
# How long a finding is kept after it no longer holds; 0 keeps all. What a diagnosis task is about stays.
FINDING_RETENTION = timedelta(days=env.int("CLAIMDESK_FINDING_RETENTION_DAYS", 400))

# How changes of device classes are reviewed: "none" (made at once), "proposal" (the author may approve) or
# "second" (another administrator does).
CLASS_REVIEW = class_review()

# --- requests --------------------------------------------------------------------------------

# What a hold Pod runs; clusters without access to the Internet name their own copy.
HOLD_IMAGE = env.str("CLAIMDESK_HOLD_IMAGE", "registry.k8s.io/pause:3.10")
# What else it has, where its flavor says nothing: a pull secret of the namespace, a PriorityClass, and
# tolerations as in the API (a JSON list).
HOLD_PULL_SECRET = env.str("CLAIMDESK_HOLD_PULL_SECRET", "")
HOLD_PRIORITY_CLASS = env.str("CLAIMDESK_HOLD_PRIORITY_CLASS", "")
HOLD_TOLERATIONS = tuple(dict(entry) for entry in env.json("CLAIMDESK_HOLD_TOLERATIONS", []))
# What Pods of lifecycle drills run: their image, and a command as a JSON list ([] = what the image says).
DRILL_IMAGE = env.str("CLAIMDESK_DRILL_IMAGE", HOLD_IMAGE)
DRILL_COMMAND = tuple(str(word) for word in env.json("CLAIMDESK_DRILL_COMMAND", []))

# --- people ----------------------------------------------------------------------------------

AUTH_USER_MODEL = "accounts.User"
AUTHENTICATION_BACKENDS = [
    "django.contrib.auth.backends.ModelBackend",
    "allauth.account.auth_backends.AuthenticationBackend",
]
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": f"django.contrib.auth.password_validation.{name}"}
    for name in (
        "UserAttributeSimilarityValidator",
        "MinimumLengthValidator",
        "CommonPasswordValidator",
        "NumericPasswordValidator",
    )
]
LOGIN_URL = "account_login"
LOGIN_REDIRECT_URL = "home"
ACCOUNT_LOGIN_METHODS = {"username", "email"}
ACCOUNT_SIGNUP_FIELDS = ["email*", "username*", "password1*", "password2*"]
ACCOUNT_EMAIL_VERIFICATION = "none"
ACCOUNT_ADAPTER = "portal.accounts.adapter.AccountAdapter"
# How many proxies in front write X-Forwarded-For: attempts to sign in are counted, and changes recorded, by
# the address that they give. 0 = nobody's word is taken.
ALLAUTH_TRUSTED_PROXY_COUNT = env.int("CLAIMDESK_TRUSTED_PROXIES", 0)
# Mail ("submission://user:password@mail.example.org"). Without it nothing that needs mail is offered.
MAIL_OFFERED = bool(env.str("CLAIMDESK_EMAIL_URL", ""))
EMAIL = email()
EMAIL_BACKEND, EMAIL_HOST, EMAIL_PORT = EMAIL["EMAIL_BACKEND"], EMAIL["EMAIL_HOST"], EMAIL["EMAIL_PORT"]
EMAIL_HOST_USER, EMAIL_HOST_PASSWORD = EMAIL["EMAIL_HOST_USER"], EMAIL["EMAIL_HOST_PASSWORD"]
EMAIL_USE_TLS, EMAIL_USE_SSL = EMAIL["EMAIL_USE_TLS"], EMAIL["EMAIL_USE_SSL"]
EMAIL_TIMEOUT = 10
DEFAULT_FROM_EMAIL = env.str("CLAIMDESK_MAIL_FROM", "claimdesk@localhost")
# Where people reach the desk ("https://desk.example.org"): mails and webhooks link there.
PUBLIC_URL = env.str("CLAIMDESK_PUBLIC_URL", next((at for at in CSRF_TRUSTED_ORIGINS if "*" not in at), ""))
# Hosts that webhooks may lead to though their addresses are private; plain HTTP is permitted there, too.
WEBHOOK_HOSTS: list[str] = env.list("CLAIMDESK_WEBHOOK_HOSTS", [])
ACCOUNT_EMAIL_SUBJECT_PREFIX = f"[{ORGANISATION}] "
ACCOUNT_EMAIL_NOTIFICATIONS = MAIL_OFFERED
ACCOUNT_EMAIL_UNKNOWN_ACCOUNTS = False
ACCOUNT_CHANGE_EMAIL = True
ACCOUNT_MAX_EMAIL_ADDRESSES = 2
ACCOUNT_LOGOUT_ON_PASSWORD_CHANGE = False
ACCOUNT_REAUTHENTICATION_METHODS = ("password", "mfa")
# The organisation's identity provider, if the environment names one: see `portal.identity`.
OIDC = identity_provider(env)
SOCIALACCOUNT_ADAPTER = "portal.accounts.oidc.adapter.SocialAccountAdapter"
SOCIALACCOUNT_EMAIL_REQUIRED = False
SOCIALACCOUNT_EMAIL_AUTHENTICATION_AUTO_CONNECT = True
# A second factor: offered to everybody, and required of administrators where this is set.
REQUIRE_MFA = env.bool("CLAIMDESK_REQUIRE_MFA", False)
MFA_ADAPTER = "portal.accounts.mfa.MfaAdapter"
MFA_SUPPORTED_TYPES = ["totp", "recovery_codes", "webauthn"]
MFA_TOTP_ISSUER = ORGANISATION
MFA_TOTP_TOLERANCE = 1
MFA_RECOVERY_CODES_SHOW_ONCE = True
# Addresses are confirmed where there is mail; without, nobody could ever get a second factor.
MFA_ALLOW_UNVERIFIED_EMAIL = True
# Browsers take keys over plain HTTP from this machine only, which is where the demo runs.
MFA_WEBAUTHN_ALLOW_INSECURE_ORIGIN = not env.bool("CLAIMDESK_BEHIND_TLS", False)
# The desk only looks: it writes to no cluster and takes no requests.
READ_ONLY = env.bool("CLAIMDESK_READ_ONLY", False)

# --- language and time -----------------------------------------------------------------------

LANGUAGE_CODE = "en"
LANGUAGES = [("en", "English"), ("zh-hans", "简体中文")]
LOCALE_PATHS = [BASE_DIR / "locale"]
USE_I18N = True
TIME_ZONE = "UTC"
USE_TZ = True

# --- static files ----------------------------------------------------------------------------

STATIC_URL = "static/"
STATIC_ROOT = BASE_DIR / "staticfiles"
NODE_MODULES = BASE_DIR / "node_modules"
STATICFILES_DIRS = [BASE_DIR / "static"]
# The source maps come along because the manifest storage insists on what the files name.
PACKAGE_FILES = {
    "tabler/css/tabler.min.css": "@tabler/core/dist/css/tabler.min.css",
    "tabler/css/tabler.min.css.map": "@tabler/core/dist/css/tabler.min.css.map",
    "echarts/echarts.min.js": "echarts/dist/echarts.min.js",
}
STATICFILES_FINDERS = [
    "django.contrib.staticfiles.finders.FileSystemFinder",
    "django.contrib.staticfiles.finders.AppDirectoriesFinder",
    "portal.staticfiles.PackageFilesFinder",
]
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    # Observations of closed periods: `manage.py ledger archive`.
    "archive": {
        "BACKEND": "django.core.files.storage.FileSystemStorage",
        "OPTIONS": {"location": str(env.path("CLAIMDESK_ARCHIVE_DIR", DATA_DIR / "archive"))},
    },
    "staticfiles": {
        # Hashed names may be cached for ever; tests run without a collected folder.
        "BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"
        if env.bool("CLAIMDESK_PLAIN_STATIC", DEBUG)
        else "whitenoise.storage.CompressedManifestStaticFilesStorage"
    },
}

# --- REST ------------------------------------------------------------------------------------

# Calls of one token to one web server in a minute; 0 = any number.
API_PER_MINUTE = env.int("CLAIMDESK_API_PER_MINUTE", 1200)
REST_FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": [
        "portal.accounts.authentication.TokenAuthentication",
        "rest_framework.authentication.SessionAuthentication",
    ],
    # A view of ours that forgets its permissions is closed to tokens (it names no scope).
    "DEFAULT_PERMISSION_CLASSES": ["portal.rest_defaults.HasScope"],
    "DEFAULT_PARSER_CLASSES": ["portal.rest_defaults.BoundedJSONParser"],
    "DEFAULT_THROTTLE_CLASSES": ["portal.rest_pace.Pace"],
    "EXCEPTION_HANDLER": "portal.api.handle_exception",
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
    "DEFAULT_SCHEMA_CLASS": "portal.accounts.schema.Schema",
}
KNOX_TOKEN_MODEL = "accounts.ApiToken"  # noqa: S105 - the name of a model, not a secret
# The prefix lets secret scanners recognise a token that leaked.
REST_KNOX = {"TOKEN_TTL": timedelta(days=90), "AUTH_HEADER_PREFIX": "Bearer", "TOKEN_PREFIX": "cdesk_"}
SPECTACULAR_SETTINGS = {
    "TITLE": "Claimdesk",
    "VERSION": "1",
    "OAS_VERSION": "3.1.0",
    "SERVE_INCLUDE_SCHEMA": False,
    "SCHEMA_PATH_PREFIX": r"/api/v[0-9]+",
    "POSTPROCESSING_HOOKS": [
        "drf_spectacular.hooks.postprocess_schema_enums",
        "portal.accounts.schema.with_problems",
        "portal.accounts.schema.with_anything",
        "portal.examples.complete",
    ],
    "ENUM_NAME_OVERRIDES": {
        "RequestState": "claims.models.Request.State",
        "NotificationKind": "portal.accounts.notifications.kinds.Kind",
        "NotificationChannel": "portal.accounts.notifications.kinds.Channel",
        "LaunchState": "claims.models.Launch.State",
        "LaunchKind": "claims.models.LaunchTemplate.Kind",
        "RequestReason": "claims.models.Request.Reason",
        "DecisionRole": "claims.models.Decision.Role",
        "DecisionVerdict": "claims.models.Decision.Verdict",
        "BookingState": "claims.models.Booking.State",
        "BookingReason": "claims.models.Booking.Reason",
        "QuotaKind": "claims.models.Quota.Kind",
        "QuotaAction": "claims.models.Quota.Action",
        "ChargeKind": "claims.models.Charge.Kind",
        "StatementState": "claims.models.Statement.State",
        "AdjustmentState": "claims.models.Adjustment.State",
        "DisputeState": "claims.models.Dispute.State",
        "StatementMove": "claims.rest.statement_moves.ACTIONS",
        "StatementMoveOfAll": "claims.rest.statement_moves.ACTIONS_FOR_ALL",
        "PoolStage": "claims.models.PoolPlan.Stage",
        "PlacementStage": "claims.models.Placement.Stage",
        "PoolWay": "claims.models.PoolPlan.Way",
        "PoolEntryKind": "claims.models.PoolPlanEntry.Kind",
        "DrillState": "claims.models.Drill.State",
        "DrillStepState": "claims.models.DrillStep.State",
        "DrillVerdict": "claims.models.DrillStep.Verdict",
        "ClusterState": "inventory.models.Cluster.State",
        "DeviceState": "inventory.models.Device.State",
        "MaintenanceState": "inventory.models.Maintenance.State",
        "MetricQueryKind": "inventory.models.MetricQuery.Kind",
        "MetricUnit": "inventory.models.MetricQuery.Unit",
        "MaintenanceEffect": "inventory.taints.api_answers.EFFECT_OR_NOTHING",
        "TaintEffect": "inventory.models.Effect",
        "DrainState": "inventory.models.Drain.State",
        "ToldDeviceState": "inventory.browse.STATE_ORDER",
        "DiagnosisState": "inventory.models.DiagnosisTask.State",
        "QueuedWorkloadState": "inventory.models.QueuedWorkload.State",
        "CdiState": "inventory.cdi.words.STATES",
        "ClassProposalState": "inventory.models.ClassProposal.State",
        "ClassProposalKind": "inventory.models.ClassProposal.Kind",
        "ProposalTargetState": "inventory.models.ProposalTarget.State",
        "ProposalOutcome": "inventory.models.ProposalTarget.Outcome",
        "ProposalEntryKind": "inventory.models.ProposalEntry.Kind",
        "NodeTokenState": "inventory.cdi.api_tokens.STATES",
    },
}

# --- logs ------------------------------------------------------------------------------------

# To the standard error stream, where whatever runs the desk picks them up. Django by itself would tell
# nobody of an error unless DEBUG is on. INFO adds a line for every answer.
LOG_LEVEL = env.str(
    "CLAIMDESK_LOG_LEVEL", "WARNING", validate=validate.OneOf(["DEBUG", "INFO", "WARNING", "ERROR"])
)
LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {
        "line": {
            "()": "portal.logs.RedactingFormatter",
            "format": "%(asctime)s %(levelname)s %(name)s%(ids)s: %(message)s",
        },
        "json": {"()": "portal.logs.JsonFormatter"},
    },
    "handlers": {
        "stderr": {
            "class": "logging.StreamHandler",
            "formatter": env.str("CLAIMDESK_LOG_FORMAT", "line", validate=validate.OneOf(["line", "json"])),
        }
    },
    "root": {"handlers": ["stderr"], "level": LOG_LEVEL},
    "loggers": {
        "django": {"handlers": [], "level": "INFO", "propagate": True},
        # What was not found or not permitted is no error of the desk's.
        "django.request": {"level": "ERROR"},
    },
}

DEFAULT_EXCEPTION_REPORTER_FILTER = "portal.logs.WithoutValues"

# --- security --------------------------------------------------------------------------------

# TLS ends at the portal's ingress; without it (the demo on loopback) secure cookies would lock everybody out.
BEHIND_TLS = env.bool("CLAIMDESK_BEHIND_TLS", False)
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = SECURE_SSL_REDIRECT = BEHIND_TLS
SECURE_HSTS_SECONDS = 31_536_000 if BEHIND_TLS else 0
SECURE_HSTS_INCLUDE_SUBDOMAINS = SECURE_HSTS_PRELOAD = BEHIND_TLS
SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https") if BEHIND_TLS else None
SESSION_COOKIE_SAMESITE = CSRF_COOKIE_SAMESITE = "Lax"
X_FRAME_OPTIONS = "DENY"
CONTENT_SECURITY_POLICY = {
    "DIRECTIVES": {
        "default-src": [NONE],
        "script-src": [SELF],
        "style-src": [SELF],
        "img-src": [SELF, "data:"],
        "font-src": [SELF],
        "connect-src": [SELF],
        "form-action": [SELF],
        "frame-ancestors": [NONE],
        "base-uri": [NONE],
    }
}
