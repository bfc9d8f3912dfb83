"""Attacks from Bash: what untrusted code can do with the programs in `/usr`."""

from __future__ import annotations

from typing import Final

from moonpool.doctor.probes.record import AnyProbe, Probe

BASH: Final[tuple[AnyProbe, ...]] = (
    Probe(
        probe_id="bash-identity",
        claim="C-LANG-1",
        title="from Bash: change its user, hold a capability, run without the filter, make a namespace",
        language="bash",
        program=r"""
for place in self/status "$$/status"; do
    while read -r name value rest; do
        case $name in
        CapInh: | CapPrm: | CapEff: | CapBnd: | CapAmb:) [ "$value" = 0000000000000000 ] || note "$name $value" ;;
        NoNewPrivs:) [ "$value" = 1 ] || note "$name $value" ;;
        Seccomp:) [ "$value" = 2 ] || note "$name $value" ;;
        Uid: | Gid:) [ "$value $rest" = $'1000 1000\t1000\t1000' ] || note "$name $value $rest" ;;
        esac
    done </proc/$place
    seen status
done
attempt su "$no|uthentication|must be|cannot|may not|does not|Critical error" su -c id root
attempt mount "$no|must be" mount -t tmpfs none /tmp
attempt remount "$no|must be" mount -o remount,rw /usr
attempt umount "$no|must be|failed" umount -l /proc
attempt unshare "$no|No space" unshare -Ur true
attempt "unshare net" "$no|No space" unshare -n true
attempt nsenter "$no|[Cc]annot open|reassociate" nsenter -t 1 -m true
attempt chroot "$no" chroot /tmp /bin/true
attempt mknod "$no" mknod /tmp/disk b 254 0
attempt hostname "$no" hostname mine
attempt date "$no" date -s 2001-01-01
attempt dmesg "$no" dmesg
attempt chrt "$no|failed" chrt -f 1 true
attempt renice "$no" renice -n -5 $$
attempt setcap "$no|Failed" setcap cap_net_raw+ep /tmp/x
attempt chown "$no|Invalid" bash -c 'touch /tmp/owned && chown 0 /tmp/owned'
""",
    ),
    Probe(
        probe_id="bash-files",
        claim="C-LANG-1",
        title="from Bash: read files of the host, write outside the sandbox's own folders",
        language="bash",
        program=r"""
for path in /etc/shadow /etc/machine-id /root/.bashrc /var/log/syslog /run/docker.sock /sys/kernel \
    /proc/1/root/etc/shadow /proc/self/cwd/../../../../etc/shadow /proc/kcore /proc/sys/kernel/core_pattern; do
    attempt $path "$gone" cat $path
done
for folder in / /usr /usr/bin /etc /dev /home /moonpool /wrappers /slots /proc; do
    [ -d $folder ] || continue
    attempt $folder "$no|$gone" bash -c "echo x >$folder/probe"
done
attempt oom "$no" bash -c 'echo -1000 >/proc/self/oom_score_adj'
attempt "memory of 1" "$no" bash -c 'exec 9<>/proc/1/mem'
attempt "channel of 1" "No such device|$no" bash -c 'exec 9<>/proc/1/fd/3'
attempt core "$no|$gone" bash -c 'echo "|/tmp/x" >/proc/sys/kernel/core_pattern'
for device in kvm mem kmsg vda sda net/tun fuse vsock; do attempt $device "$gone" bash -c "exec 9</dev/$device"; done
""",
    ),
    Probe(
        probe_id="bash-network",
        claim="C-LANG-1",
        quick=False,
        title="from Bash: reach anything on a network",
        language="bash",
        program=r"""
none='not supported|[Uu]nreachable|not permitted|EAFNOSUPPORT|[Cc]ould not|[Ff]ailed|[Cc]annot|unable|refused|lookup'
for place in tcp/1.1.1.1/443 tcp/169.254.169.254/80 tcp/127.0.0.1/22 udp/8.8.8.8/53 tcp/localhost/80; do
    attempt $place "$none|resolution|not known" bash -c "exec 9<>/dev/$place"
done
attempt curl "$none|^curl|^$" curl -sS -m 2 http://169.254.169.254/
attempt wget "$none|resolve|^$" wget -q -T 2 -t 1 -O - http://169.254.169.254/
attempt nc "$none|^$" nc -w 1 127.0.0.1 22
attempt ping "$none|socket" ping -c 1 -W 1 127.0.0.1
attempt ip "$none" ip link add dummy0 type dummy
attempt names "^$" getent ahosts example.com
if [ -e /proc/net/dev ]; then
    while read -r name _; do
        case $name in lo: | Inter-* | face*) ;; *) note "interface $name" ;; esac
    done </proc/net/dev
fi
""",
    ),
    Probe(
        probe_id="bash-processes",
        claim="C-LANG-1",
        quick=False,
        title="from Bash: signal processes of others; end the sandbox's first process",
        language="bash",
        program=r"""
for pid in {2..2000}; do
    [ -e /proc/$pid ] || { kill -0 $pid 2>/dev/null && note "signalled $pid"; }
done
seen kill
kill -KILL 1 && seen "the first process takes no SIGKILL from inside"
[ -e /proc/1/status ] || note "the first process is gone"
count=0
for entry in /proc/[0-9]*; do count=$((count + 1)); done
[ $count -le 8 ] || note "$count processes are visible"
attempt prlimit "$no|ailed" prlimit --pid 1 --nofile=100000:100000
attempt taskset "$no|ailed|such process" taskset -p 1 100000
""",
        fresh=True,
    ),
    Probe(
        probe_id="bash-limits",
        claim="C-LANG-1",
        title="from Bash: raise a limit; take more processes, disk or descriptors than the sandbox was promised",
        language="bash",
        program=r"""
for letter in d f l n t u v; do
    before=$(ulimit -H$letter)
    if [ "$before" = unlimited ]; then
        [ $letter = d ] || [ $letter = v ] || note "ulimit -$letter is unlimited"
        continue
    fi
    attempt "ulimit -$letter" "$no" eval "ulimit -H$letter $((before + 1))"
    attempt "ulimit -$letter unlimited" "$no" eval "ulimit -H$letter unlimited"
done
[ "$(ulimit -Hu)" -le $((PROCESSES + 16)) ] || note "processes $(ulimit -Hu)"
[ "$(ulimit -Hn)" -le $OPEN_FILES ] || note "descriptors $(ulimit -Hn)"
count=$((DISK_BYTES / 1048576 + 8))
attempt disk "No space|too large|limit exceeded" dd if=/dev/zero of=/workspace/fill bs=1M count=$count
rm -f /workspace/fill
fill_processes
seen "$count processes"
[ $count -le $PROCESSES ] || note "$count processes ran at once, $PROCESSES were promised"
[ $count -ge $((PROCESSES / 2)) ] || note "only $count processes: nothing was filled"
""",
        fresh=True,
        quick=False,
    ),
    Probe(
        probe_id="bash-residue",
        claim="C-LANG-1",
        quick=False,
        title="from Bash: find variables or descriptors of the host",
        language="bash",
        program=r"""
while IFS='=' read -r -d '' name _; do
    case $name in
    PATH | HOME | USER | TMPDIR | LANG | LC_CTYPE | PWD | SHLVL | _ | OLDPWD) ;;
    PIP_NO_INDEX | NPM_CONFIG_OFFLINE | UV_OFFLINE) ;;
    *_NUM_THREADS | MPL* | PYTHON* | LD_LIBRARY_PATH) ;;
    *) note "variable $name" ;;
    esac
done < <(env -0)
seen variables
for fd in /proc/$$/fd/*; do
    case $(readlink $fd) in
    pipe:* | /dev/null | /moonpool/* | /memfd:* | "") seen descriptor ;;
    *) note "descriptor ${fd##*/} is $(readlink $fd)" ;;
    esac
done
""",
    ),
)
