# shellcheck shell=bash
# What examples/run, tests/run, tests/soak and bench/run share.

# The root of the repository, wherever the script is called from.
top=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd)

# need_packages PACKAGE…: installs the Debian packages that are missing, and says so. Where all are there it does
# nothing, so that everything works offline then.
need_packages() {
    local package missing=() as_root=()
    if ! command -v dpkg-query >/dev/null; then
        echo "This is not Debian; going on with what is installed. On Debian these packages are used: $*"
        return 0
    fi
    for package in "$@"; do
        [[ $(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null) == installed ]] || missing+=("$package")
    done
    ((${#missing[@]})) || return 0

    if ((EUID != 0)); then
        if ! command -v sudo >/dev/null; then
            echo "Packages are missing, and only root may install them: apt-get install ${missing[*]}" >&2
            return 1
        fi
        as_root=(sudo)
    fi
    as_root+=(env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300 -o Acquire::Retries=3)
    echo "Installing ${missing[*]}"
    logged packages "${as_root[@]}" update
    logged packages "${as_root[@]}" install -y --no-install-recommends "${missing[@]}"
}

# want_packages PACKAGE…: the same for packages that only a part needs; where they cannot be had, it is left out.
want_packages() {
    need_packages "$@" || echo "Going on without what needs $*" >&2
}

# logged NAME COMMAND…: runs the command without a terminal, its output in build/log/NAME. Where it fails, the errors
# in it are shown, or its end.
logged() {
    local log=$top/build/log/$1 status=0
    shift
    mkdir -p "$top/build/log"
    "$@" </dev/null >"$log" 2>&1 || status=$?
    if ((status)); then
        echo "--- $* returned $status; from $log:"
        grep -v -e '-Werror ' "$log" | grep -E -m 20 '[Ee]rror[: ]' || tail -n 20 "$log"
        echo "---"
    fi >&2
    return "$status"
}

# build_preset NAME [TARGET…]: configures and builds one preset of CMakePresets.json, with ninja if it is there. A unit
# that does not compile keeps no other from being built.
build_preset() {
    local preset=$1 dir=$top/build/$1 generator=() targets=() go_on=(-k)
    shift
    (($# == 0)) || targets=(--target "$@")
    if command -v ninja >/dev/null && [[ ! -e $dir/CMakeCache.txt ]]; then generator=(-G Ninja); fi
    rm -f "$top/build/log/$preset.build"
    logged "$preset.configure" cmake -S "$top" --preset "$preset" "${generator[@]}" || return
    if [[ -e $dir/build.ninja ]]; then go_on=(-k 0); fi
    logged "$preset.build" cmake --build "$dir" --parallel "$(job_count)" "${targets[@]}" -- "${go_on[@]}"
}

# How many jobs to run at once: one per core, and no more than one per GiB of memory.
job_count() {
    local cores gib
    cores=$(nproc 2>/dev/null || echo 2)
    gib=$(awk '/^MemAvailable:/ { print int($2 / 1048576) }' /proc/meminfo 2>/dev/null || echo "$cores")
    echo $((gib < 1 ? 1 : gib < cores ? gib : cores))
}

# What follows counts: `start_counting`, then `check` for everything that passes or fails.
passed=0
failed=0

# The summary comes also where the run breaks off, and that is a failure then.
start_counting() {
    trap summary EXIT
    trap 'exit 130' INT
    trap 'exit 143' TERM HUP
}

summary() {
    local status=$? beside
    trap - EXIT
    for beside in $(jobs -p); do kill "$beside" 2>/dev/null || true; done # it ends behind the host that it is at
    if ((status)); then failed=$((failed + 1)); fi
    printf '\n%d s in all; the logs are in build/log\n%d passed, %d failed\n' "$SECONDS" "$passed" "$failed"
    exit $((failed > 0))
}

# check NAME COMMAND…: one thing that passes or fails.
check() {
    local name=$1 start=$SECONDS outcome=passed
    shift
    if "$@"; then passed=$((passed + 1)); else
        failed=$((failed + 1))
        outcome=FAILED
    fi
    printf '%-7s %4d s  %s\n' "$outcome" $((SECONDS - start)) "$name"
}
