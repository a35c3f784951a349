#!/bin/sh
# Build/package/Roundhouse.app -> dist/roundhouse-VERSION-macos-ARCH.dmg. Never run yet; see docs/guide/installing.md.
# With SIGNING_IDENTITY it signs for the hardened runtime; with NOTARY_PROFILE too (made by `xcrun notarytool
# store-credentials`) it has Apple notarise the image. Without them the image is unsigned, and macOS says so.
set -eu
cd "$(dirname "$0")/../.."

version=${1:?Name the version}
application=build/package/Roundhouse.app
image=dist/roundhouse-$version-macos-$(uname -m).dmg

# How this copy is installed: updates go by it.
printf '{"kind":"dmg","version":"%s"}\n' "$version" > "$application/Contents/Resources/installation.json"

if [ -n "${SIGNING_IDENTITY:-}" ]; then
    # From the inside out: a bundle's signature covers those of what it holds.
    find "$application" -type f \( -name '*.dylib' -o -name '*.so' -o -perm -100 \) -print0 |
        xargs -0 codesign --force --timestamp --options runtime \
            --entitlements packaging/macos/entitlements.plist --sign "$SIGNING_IDENTITY"
    codesign --force --timestamp --options runtime \
        --entitlements packaging/macos/entitlements.plist --sign "$SIGNING_IDENTITY" "$application"
    codesign --verify --deep --strict "$application"
fi

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cp -R "$application" "$folder/"
ln -s /Applications "$folder/Applications"
mkdir -p dist
hdiutil create -volname Roundhouse -srcfolder "$folder" -format UDZO -ov "$image"

if [ -n "${SIGNING_IDENTITY:-}" ]; then
    codesign --timestamp --sign "$SIGNING_IDENTITY" "$image"
    if [ -n "${NOTARY_PROFILE:-}" ]; then
        xcrun notarytool submit "$image" --keychain-profile "$NOTARY_PROFILE" --wait
        xcrun stapler staple "$image"
    fi
fi
echo "$image"
