#!/usr/bin/env bash
# Tests the kernels for AVX-512 and VNNI on a processor that has neither: the emulator Bochs imitates one that has,
# and boots Debian's Linux with nothing on it but the test binary. Bochs is built here (as .forwardpass/bochs-3.0):
# Debian 12's own, 2.7, is slower, and fails TestInt8, which 3.0 passes. Needs go, g++, make, and Debian's apt for
# the rest.
#
#   .ci/avx512.sh [N]    tries one small shape in N, 5 if not given: the imitation is some hundred times slower
#
# Six minutes on one core, four of them to build Bochs.
set -euo pipefail
cd "$(dirname "$0")/.."
shapes=${1:-5}
limit=600 # seconds of emulation

skip() { echo "skipped: $*"; exit; }
[ "$(uname -m)" = x86_64 ] || skip "this is no x86-64 processor"
flags=$(grep -m1 '^flags' /proc/cpuinfo)
missing=$(for f in avx512f avx512bw avx512dq avx512vl avx512_vnni; do grep -qw "$f" <<<"$flags" || echo "$f"; done)
[ -n "$missing" ] || skip "this processor has AVX-512, so that go test has tested its kernels"

bochs=$PWD/.forwardpass/bochs-3.0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
start=$SECONDS
get=(apt-get -q -o APT::Sandbox::User=root) # nobody else may read $work
say() { printf '== %s (%d s)\n' "$*" $((SECONDS - start)); }

packages="bochsbios vgabios isolinux syslinux-common genisoimage cpio"
[ -f /etc/apt/sources.list.d/debian.sources ] || skip "this is not Debian 12 or newer"
apt-get -q update
dpkg -s $packages >/dev/null 2>&1 || DEBIAN_FRONTEND=noninteractive apt-get install -qy --no-install-recommends $packages

if [ ! -x "$bochs" ]; then
    say "building Bochs 3.0 from Debian 13's source"
    mkdir -p .forwardpass "$work/src" "$work/lists/partial"
    # The machine's own first source of packages, but sources instead of programs, and of Debian 13.
    awk -v RS= 'NR == 1' /etc/apt/sources.list.d/debian.sources |
        sed 's/^Types:.*/Types: deb-src/; s/^Suites:.*/Suites: trixie/' >"$work/trixie.sources"
    apt=("${get[@]}" -o Dir::Etc::sourcelist="$work/trixie.sources" -o Dir::Etc::sourceparts=- -o Dir::State::lists="$work/lists")
    if ! "${apt[@]}" update || ! (cd "$work/src" && "${apt[@]}" source --tar-only bochs=3.0+dfsg-1); then
        skip "the emulator's source, bochs 3.0+dfsg-1 of Debian 13, can't be fetched from here"
    fi
    (cd "$work/src" && tar xf bochs_*.tar.xz --strip-components=1)
    (cd "$work/src" && CFLAGS='-O2 -w' CXXFLAGS='-O2 -w' ./configure --with-nogui --without-x --enable-x86-64 --enable-avx \
        --enable-evex --enable-protection-keys --enable-all-optimizations --disable-logging --disable-stats \
        --disable-show-ips --disable-vmx --disable-docbook && make -j"$(nproc)") >"$work/build" 2>&1 || { tail -n 40 "$work/build" >&2; exit 1; }
    cp "$work/src/bochs" "$bochs"
fi

say "the disc: Linux, and as its file system the tests and the program that starts them"
mkdir "$work/disc"
kernel=$(apt-cache depends linux-image-cloud-amd64 | awk '/Depends: linux-image-/ {print $2}')
(cd "$work" && "${get[@]}" download "$kernel" && dpkg -x linux-image-*.deb .) # unpacked, not installed
cp "$work"/boot/vmlinuz-* "$work/disc/linux"
cp /usr/lib/ISOLINUX/isolinux.bin /usr/lib/syslinux/modules/bios/ldlinux.c32 "$work/disc"
CGO_ENABLED=0 go build -o "$work/init" ./.ci/avx512
CGO_ENABLED=0 go test -c -o "$work/kernel.test" ./pkg/tensor/internal/kernel
(cd "$work" && printf '%s\n' init kernel.test | cpio -o --quiet -H newc >disc/initrd)
# Bochs has fast strings switched off, and Linux 6.1 copies wrongly if it then believes in short ones (fsrm). The
# clock ticks once an instruction, 20 million times a second.
cat >"$work/disc/isolinux.cfg" <<END
default tests
label tests
  kernel linux
  append initrd=initrd rdinit=/init console=ttyS0 quiet panic=-1 mitigations=off clearcpuid=fsrm tsc_early_khz=20000 FORWARDPASS_SHAPES=$shapes
END
genisoimage -quiet -o "$work/disc.iso" -b isolinux.bin -c boot.cat -no-emul-boot -boot-load-size 4 -boot-info-table "$work/disc"
cat >"$work/bochsrc" <<END
cpu: model=corei7_icelake_u, ips=20000000, reset_on_triple_fault=0
megs: 512
romimage: file=/usr/share/bochs/BIOS-bochs-latest
vgaromimage: file=/usr/share/vgabios/vgabios.bin
ata0-master: type=cdrom, path=$work/disc.iso, status=inserted
boot: cdrom
com1: enabled=1, mode=file, dev=$work/serial
display_library: nogui
panic: action=fatal
END

say "the tests, one small shape in $shapes, with times as that machine's clock has them"
timeout -k 5 $limit "$bochs" -q -f "$work/bochsrc" </dev/null >"$work/log" 2>&1 || true # switching off is an error to Bochs
touch "$work/serial"
tr -d '\r' <"$work/serial"
grep -q 'this processor: avx512, VNNI true' "$work/serial" || { echo "no test ran with AVX-512 and VNNI" >&2; tail "$work/log" >&2; exit 1; }
grep -q 'tests ended: <nil>' "$work/serial" || { echo "the tests failed, or did not end within $limit s" >&2; exit 1; }
say "done"
