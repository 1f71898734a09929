#!/bin/sh
# The only program of a guest that is always there. It takes orders from the tests through a virtio port, one a line:
#   run ID COMMAND (base64)     a shell of its own; the output goes to the file ID in the folder shared with the tests
#   kill PID SIGNAL             to all processes of such a shell
# and answers "hello" when it is ready, "started ID PID" and "ended ID CODE".
export PATH=/usr/bin:/opt/hca/own HOME=/root
busybox mount -t proc proc /proc
busybox --install -s /usr/bin 2>/dev/null # beside those that are there already
mount -t sysfs sysfs /sys
mount -t devtmpfs dev /dev
mkdir -p /dev/pts /dev/shm
mount -t devpts devpts /dev/pts
mount -t tmpfs shm /dev/shm
mount -t tmpfs tmp /tmp
mount -t tmpfs run /run
modprobe -a virtio_pci virtio_console virtio_net 9pnet_virtio 9p
mount -t 9p -o trans=virtio,version=9p2000.L,msize=262144 host /host
ip link set lo up
# The way to the machine outside, which is 10.0.2.2; cables of cards have other addresses.
for interface in /sys/class/net/*; do
  [ "$(cat "$interface/address")" = 52:54:00:00:01:01 ] && ip link set "${interface##*/}" name tcp up
done
ip address add 10.0.2.15/24 dev tcp

for port in /sys/class/virtio-ports/*; do
  [ "$(cat "$port/name")" = agent ] && agent=/dev/${port##*/}
done
exec 3<>"$agent"

run() {
  setsid /bin/sh -c "$2" </dev/null >"/host/$1" 2>&1 3>&- &
  echo "started $1 $!" >&3
  wait $!
  echo "ended $1 $?" >&3
}

echo hello >&3
while read -r word first second <&3; do
  case $word in
    run) run "$first" "$(echo "$second" | base64 -d)" & ;;
    kill) busybox kill -s "$second" "-$first" ;;
  esac
done
echo "nobody gives orders any more"
poweroff -f
