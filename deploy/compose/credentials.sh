#!/usr/bin/env bash
# Makes what deploy/compose.yaml mounts as secrets: a CA and a certificate for the names "store" and "localhost", good for a year, and a token
# for the agents. Run it again to replace them all. It needs openssl, and the a2a-taskstore image or a binary named by
# A2A_TASKSTORE.
set -euo pipefail
cd "$(dirname "$0")"
umask 077
mkdir -p secrets
cd secrets

openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -noenc -days 365 -subj "/CN=a2a-taskstore CA" \
  -addext keyUsage=critical,keyCertSign -keyout ca-key.pem -out ca.pem 2>/dev/null
openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -noenc -subj "/CN=store" -keyout store-key.pem -out store.csr 2>/dev/null
openssl x509 -req -in store.csr -CA ca.pem -CAkey ca-key.pem -days 365 -out store.pem \
  -extfile <(printf 'subjectAltName=DNS:store,DNS:localhost\nextendedKeyUsage=serverAuth\n') 2>/dev/null
rm store.csr

store() {
  if [ -n "${A2A_TASKSTORE:-}" ]; then "$A2A_TASKSTORE" "$@"; else docker run --rm a2a-taskstore "$@"; fi
}
store token new >agent.token 2>token.hash
{
  printf 'principals:\n  - name: demo-agents\n    tenants: [""]\n    access: read-write\n    tokens:\n'
  grep hash: token.hash
} >credentials.yaml
rm token.hash

# Compose mounts files as they are, and the services run as a user of their own; the directory is closed to others.
chmod 644 ca.pem store.pem store-key.pem credentials.yaml agent.token
