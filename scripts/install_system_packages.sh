#!/bin/sh
# Installs what the tests use beside Python, where that is possible; a test whose tool is absent skips and says how to get it.
set -u
packages="iverilog gcc g++ make clang-14 libclang-rt-14-dev gcc-arm-none-eabi libnewlib-arm-none-eabi qemu-system-arm
    gcc-riscv64-unknown-elf picolibc-riscv64-unknown-elf qemu-system-misc"
missing=""
for package in $packages; do
    dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q "install ok installed" || missing="$missing $package"
done
[ -z "$missing" ] && exit 0
if command -v apt-get >/dev/null 2>&1 && [ "$(id -u)" = 0 ]; then
    echo "installing$missing"
    { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing; } \
        >/dev/null 2>&1 || echo "could not install$missing: their tests will skip"
else
    echo "for all tests, install:$missing (for example: sudo apt-get install$missing)"
fi
exit 0
