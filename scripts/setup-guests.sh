#!/usr/bin/env bash
# What `make peers` runs its guests with, from Debian's packages: a kernel, a user land with soft-RoCE and the verbs
# programs, and a QEMU with vfio-user. Unpacked, never installed: nothing outside DEST changes, and nobody need be root.
# The mirror is the one that this machine's own packages come from; HCA_DEBIAN_MIRROR names another one.
# usage: setup-guests.sh DEST      afterwards DEST/kernel, DEST/user, DEST/qemu hold files as in a root folder
set -euo pipefail
dest=$(realpath -m "$1")
suite=trixie
user=(dash busybox-static kmod iproute2 iputils-ping pciutils)
user+=(rdma-core ibverbs-utils ibverbs-providers perftest rdmacm-utils)
qemu=(qemu-system-x86 ipxe-qemu seabios)
qemu_oldest=10.1 # the first with vfio-user
keyring=/usr/share/keyrings/debian-archive-keyring.gpg

die() { printf 'guests: %s\n' "$*" >&2; exit 1; }
for tool in apt-get apt-config dpkg; do
  command -v "$tool" >/dev/null || die "no $tool here: the guests are made of Debian packages"
done
[[ $(dpkg --print-architecture) == amd64 ]] || die "the guests are amd64, this machine is $(dpkg --print-architecture)"
[[ -r $keyring ]] || die "no $keyring: install debian-archive-keyring"

# The machine's first source whose path is Debian's, not that of a security or vendor archive.
find_mirror() {
  apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' | grep -E '^(https?|file)://[^ ]*/debian/?$' |
    head -n 1 || true
}
mirror=${HCA_DEBIAN_MIRROR:-$(find_mirror)}
[[ $mirror ]] || die "no Debian mirror among this machine's package sources: set HCA_DEBIAN_MIRROR to its address"

mkdir -p "$(dirname "$dest")"
work=$(mktemp -d "$dest.XXXXXX")
trap 'rm -rf "$work"' EXIT
cd "$work"

# An apt of our own: the machine's proxies and certificates, else nothing of it; an empty list of installed packages.
mkdir -p apt/{etc,state/lists/partial,cache,empty} new
: >apt/status
for archive in "$suite" "$suite-backports"; do
  echo "deb [arch=amd64 signed-by=$keyring] $mirror $archive main"
done >apt/etc/sources.list
{
  apt-config dump Acquire
  cat <<END
Dir::Etc "$work/apt/etc"; Dir::Etc::parts "$work/apt/empty"; Dir::Etc::main "/dev/null";
Dir::Etc::sourcelist "$work/apt/etc/sources.list"; Dir::Etc::sourceparts "$work/apt/empty";
Dir::Etc::preferencesparts "$work/apt/empty"; Dir::State "$work/apt/state"; Dir::State::status "$work/apt/status";
Dir::Cache "$work/apt/cache"; Acquire::Languages "none"; Acquire::Retries "3";
APT::Sandbox::User "$(id -un)"; APT::Architecture "amd64"; APT::Install-Recommends "false";
APT::Default-Release "$suite";
END
} >apt/apt.conf
export APT_CONFIG=$work/apt/apt.conf

fetch() { # fetch FOLDER PACKAGE...: these and all that they depend on
  local folder=$1 file
  shift
  mkdir -p "$folder/partial"
  apt-get install -qq -y --download-only -o Dir::Cache::archives="$work/$folder" "$@" </dev/null >apt.log 2>&1 ||
    { tail -n 5 apt.log >&2; die "could not fetch $* from $mirror: is it reachable from here, and complete?"; }
  mkdir "new/$folder"
  for file in "$folder"/*.deb; do dpkg -x "$file" "new/$folder"; done
}

apt-get update -qq </dev/null >apt.log 2>&1 || true # says the failures of a download in words only
[[ -n $(apt-cache policy qemu-system-x86 2>/dev/null | grep -F "$suite-backports" || true) ]] ||
  { tail -n 5 apt.log >&2; die "could not read the package lists of $suite and $suite-backports at $mirror: check the" \
    "network and the proxy, or set HCA_DEBIAN_MIRROR to a mirror that has them"; }
found=$(apt-cache policy qemu-system-x86 -t "$suite-backports" | sed -n 's/^ *Candidate: *\(.*:\)\?//p')
dpkg --compare-versions "$found" ge "$qemu_oldest" ||
  die "qemu-system-x86 $found of $suite-backports is older than $qemu_oldest"

# The package of the kernel itself: the one that the name of the newest stands for, without tools to install it.
kernel=$(apt-cache depends --important linux-image-amd64 | sed -n 's/^ *Depends: *\(linux-image-.*\)/\1/p' | head -n 1)
[[ $kernel ]] || die "no linux-image-amd64 in $suite at $mirror"
apt-get download -qq "$kernel" </dev/null >apt.log 2>&1 ||
  { tail -n 5 apt.log >&2; die "could not fetch $kernel from $mirror"; }
dpkg -x "$kernel"_*.deb new/kernel
fetch user "${user[@]}"
fetch qemu -t "$suite-backports" "${qemu[@]}"
printf '%s\n' "$kernel" "qemu $found" >new/versions

# Most of a distribution's kernel is for machines that a guest is not.
rm -rf new/kernel/usr/lib/modules/*/kernel/{sound,drivers/{gpu,media,iio,staging,usb,hid,scsi,mmc,ata,bluetooth}}
rm -rf new/kernel/usr/lib/modules/*/kernel/drivers/net/{wireless,ethernet} new/*/usr/share/{doc,man,locale}
rm -f new/qemu/usr/bin/qemu-system-{i386,x86_64-microvm}
find new -type f -perm /6000 -exec chmod a-s {} + # nobody here runs them as somebody else
rm -rf "$dest"
mv new "$dest"
