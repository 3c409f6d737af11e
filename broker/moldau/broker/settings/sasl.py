"""Logins by SASL, other than those with OAuth.

A listener may have its own values under `listener.name.<name in lower case>.`; some also under the
mechanism.
"""

from __future__ import annotations

from moldau.config import (
    CLASS,
    DOUBLE,
    HIGH,
    INT,
    LIST,
    LONG,
    PASSWORD,
    PER_BROKER,
    SHORT,
    STRING,
    Setting,
    list_of,
)

# fmt: off
sasl_enabled_mechanisms = Setting(
    "sasl.enabled.mechanisms", LIST, ("GSSAPI",), check=list_of(), dynamic=PER_BROKER,
    doc="The SASL mechanisms that clients may log in with.")
sasl_mechanism_inter_broker_protocol = Setting(
    "sasl.mechanism.inter.broker.protocol", STRING, "GSSAPI", dynamic=PER_BROKER,
    doc="The SASL mechanism that brokers log in with at each other.")
sasl_mechanism_controller_protocol = Setting(
    "sasl.mechanism.controller.protocol", STRING, "GSSAPI", importance=HIGH,
    doc="The SASL mechanism that brokers log in with at controllers.")
sasl_jaas_config = Setting("sasl.jaas.config", PASSWORD, None, dynamic=PER_BROKER,
    doc="The logins and how they are checked, in the syntax of Java's login modules; given for "
    "each listener and mechanism.")
sasl_server_max_receive_size = Setting("sasl.server.max.receive.size", INT, 524_288,
    doc="The longest message that is read during a login.")
sasl_server_callback_handler_class = Setting("sasl.server.callback.handler.class", CLASS, None,
    doc="A plugin that checks credentials, given for each listener and mechanism.")
sasl_client_callback_handler_class = Setting("sasl.client.callback.handler.class", CLASS, None,
    doc="A plugin that brings credentials when this node logs in somewhere.")
sasl_login_callback_handler_class = Setting("sasl.login.callback.handler.class", CLASS, None,
    doc="A plugin that brings credentials to a login.")
sasl_login_class = Setting("sasl.login.class", CLASS, None,
    doc="A Java class that logs in.")
sasl_login_refresh_window_factor = Setting(
    "sasl.login.refresh.window.factor", DOUBLE, 0.8, dynamic=PER_BROKER,
    doc="A login is renewed when this part of its lifetime is over.")
sasl_login_refresh_window_jitter = Setting(
    "sasl.login.refresh.window.jitter", DOUBLE, 0.05, dynamic=PER_BROKER,
    doc="By which part of the lifetime renewals are spread at random.")
sasl_login_refresh_min_period_seconds = Setting(
    "sasl.login.refresh.min.period.seconds", SHORT, 60, dynamic=PER_BROKER,
    doc="A login is not renewed more often than this.")
sasl_login_refresh_buffer_seconds = Setting(
    "sasl.login.refresh.buffer.seconds", SHORT, 300, dynamic=PER_BROKER,
    doc="A login is renewed at least this long before it ends.")
sasl_kerberos_service_name = Setting("sasl.kerberos.service.name", STRING, None, dynamic=PER_BROKER,
    doc="The name under which Kerberos knows the brokers.")
sasl_kerberos_kinit_cmd = Setting(
    "sasl.kerberos.kinit.cmd", STRING, "/usr/bin/kinit", dynamic=PER_BROKER,
    doc="The path of Kerberos's kinit.")
sasl_kerberos_ticket_renew_window_factor = Setting(
    "sasl.kerberos.ticket.renew.window.factor", DOUBLE, 0.8, dynamic=PER_BROKER,
    doc="A Kerberos ticket is renewed when this part of its lifetime is over.")
sasl_kerberos_ticket_renew_jitter = Setting(
    "sasl.kerberos.ticket.renew.jitter", DOUBLE, 0.05, dynamic=PER_BROKER,
    doc="By which part renewals of Kerberos tickets are spread at random.")
sasl_kerberos_min_time_before_relogin = Setting(
    "sasl.kerberos.min.time.before.relogin", LONG, 60_000, dynamic=PER_BROKER,
    doc="Kerberos logins are at least this far apart.")
sasl_kerberos_principal_to_local_rules = Setting(
    "sasl.kerberos.principal.to.local.rules", LIST, ("DEFAULT",), check=list_of(),
    dynamic=PER_BROKER,
    doc="Rules that make a short name of a Kerberos principal; the first that fits counts.")
