#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Writes an SPDX 2.3 list (tag-value) of what this root file system holds: Lockstep and every Debian
# package with its version. It is created at SOURCE_DATE_EPOCH. The licences of packages are in
# /usr/share/doc/*/copyright.
set -eu

version=$(/usr/local/bin/lockstep --version | cut -d' ' -f2)
created=$(date -u -d "@$SOURCE_DATE_EPOCH" +%Y-%m-%dT%H:%M:%SZ)
cat <<END
SPDXVersion: SPDX-2.3
DataLicense: CC0-1.0
SPDXID: SPDXRef-DOCUMENT
DocumentName: lockstep-$version
DocumentNamespace: https://lockstep.example/spdx/lockstep-$version-$created
Creator: Tool: lockstep-deploy-spdx.sh
Created: $created

PackageName: lockstep
SPDXID: SPDXRef-lockstep
PackageVersion: $version
PackageDownloadLocation: NOASSERTION
FilesAnalyzed: false
PackageLicenseConcluded: Apache-2.0
PackageLicenseDeclared: Apache-2.0
PackageCopyrightText: NOASSERTION
Relationship: SPDXRef-DOCUMENT DESCRIBES SPDXRef-lockstep
END

# shellcheck disable=SC2016  # dpkg-query's own fields.
dpkg-query -W -f '${Package} ${Version} ${Architecture} ${Status}\n' |
  grep ' installed$' | while read -r package version architecture _; do
    id=SPDXRef-deb-$(echo "$package-$architecture" | tr -c 'a-zA-Z0-9.\n-' '-')
    # In a package URL "+" and ":" are escaped.
    escaped=$(echo "$package@$version" | sed 's/+/%2B/g; s/:/%3A/g; s/~/%7E/g')
    cat <<END

PackageName: $package
SPDXID: $id
PackageVersion: $version
PackageSupplier: Organization: Debian
PackageDownloadLocation: NOASSERTION
FilesAnalyzed: false
PackageLicenseConcluded: NOASSERTION
PackageLicenseDeclared: NOASSERTION
PackageCopyrightText: NOASSERTION
ExternalRef: PACKAGE-MANAGER purl pkg:deb/debian/$escaped?arch=$architecture
Relationship: SPDXRef-lockstep DEPENDS_ON $id
END
  done
