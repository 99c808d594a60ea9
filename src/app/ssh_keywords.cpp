// SPDX-License-Identifier: GPL-2.0-or-later
#include "app/ssh_keywords.h"

#include <strings.h>

#include <algorithm>

namespace ply::app {

const std::vector<std::string_view>& ssh_keywords() {
  static const std::vector<std::string_view> keywords = {
      "AddKeysToAgent", "AddressFamily", "BatchMode", "BindAddress", "BindInterface", "CanonicalDomains",
      "CanonicalizeFallbackLocal", "CanonicalizeHostname", "CanonicalizeMaxDots", "CanonicalizePermittedCNAMEs",
      "CASignatureAlgorithms", "CertificateFile", "ChallengeResponseAuthentication", "ChannelTimeout", "CheckHostIP",
      "Cipher", "Ciphers", "Compression", "CompressionLevel", "ConnectionAttempts", "ConnectTimeout",
      "ControlMaster", "ControlPath", "ControlPersist", "EnableEscapeCommandline", "EnableSSHKeysign", "EscapeChar",
      "FingerprintHash", "GlobalKnownHostsFile", "GSSAPIAuthentication", "GSSAPIClientIdentity",
      "GSSAPIDelegateCredentials", "GSSAPIKeyExchange", "GSSAPIKexAlgorithms", "GSSAPIRenewalForcesRekey",
      "GSSAPIServerIdentity", "GSSAPITrustDns", "HashKnownHosts", "HostbasedAcceptedAlgorithms",
      "HostbasedAuthentication", "HostbasedKeyTypes", "HostKeyAlgorithms", "HostKeyAlias", "HostName",
      "IdentitiesOnly", "IdentityAgent", "IdentityFile", "IgnoreUnknown", "Include", "IPQoS",
      "KbdInteractiveAuthentication", "KbdInteractiveDevices", "KexAlgorithms", "KnownHostsCommand", "LocalCommand",
      "LogLevel", "LogVerbose", "MACs", "NoHostAuthenticationForLocalhost", "NumberOfPasswordPrompts",
      "ObscureKeystrokeTiming", "PasswordAuthentication", "PermitLocalCommand", "PKCS11Provider", "Port",
      "PreferredAuthentications", "Protocol", "ProxyCommand", "ProxyJump", "ProxyUseFdpass",
      "PubkeyAcceptedAlgorithms", "PubkeyAcceptedKeyTypes", "PubkeyAuthentication", "RefuseConnection", "RekeyLimit",
      "RequiredRSASize", "RevokedHostKeys", "RhostsRSAAuthentication", "RSAAuthentication", "SecurityKeyProvider",
      "SendEnv", "ServerAliveCountMax", "ServerAliveInterval", "SetEnv", "SmartcardDevice", "StrictHostKeyChecking",
      "SyslogFacility", "Tag", "TCPKeepAlive", "UpdateHostKeys", "UsePrivilegedPort", "User", "UserKnownHostsFile",
      "VerifyHostKeyDNS", "VersionAddendum", "VisualHostKey", "WarnWeakCrypto", "XAuthLocation"};
  return keywords;
}

bool is_ssh_keyword(std::string_view name) {
  const auto& keywords = ssh_keywords();
  return std::any_of(keywords.begin(), keywords.end(), [&](std::string_view keyword) {
    return keyword.size() == name.size() && strncasecmp(keyword.data(), name.data(), name.size()) == 0;
  });
}

}  // namespace ply::app
