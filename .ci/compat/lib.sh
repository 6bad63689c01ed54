# Shared by the scripts here; sourced. Sets:
#   here    this folder; nothing is written in it but results
#   cache   where packages and built adapters lie
# shellcheck shell=bash disable=SC2034

here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)
me=$(basename -- "$0")
cache=${XDG_CACHE_HOME:-$HOME/.cache}/millstream-compat
mkdir -p -- "$cache"
export PYTHONDONTWRITEBYTECODE=1

die() {
  printf '%s: %s\n' "$me" "$*" >&2
  exit 1
}

# print_help: the comment block at the top of the calling script.
print_help() { sed -n '2,/^[^#]/{/^#/!d;s/^# \{0,1\}//;p}' "$0"; }

# once NAME SUM-OF-FILES... -- COMMAND...: runs the command in a new folder of the cache unless that was done with the
# same files before; sets made to the folder.
once() {
  local name=$1 files=() sum
  shift
  while [[ $1 != -- ]]; do files+=("$1"); shift; done
  shift
  sum=$(cat -- "${files[@]}" | cksum | cut -d' ' -f1)
  made=$cache/$name-$sum
  (
    flock 9
    [[ -e $made/complete ]] && exit 0
    rm -rf -- "$made" && mkdir -p -- "$made"
    cd -- "$made" && "$@" >&2 && touch -- "$made/complete"
  ) 9>"$cache/$name.lock" || die "cannot prepare $name"
}

# maven_jars POM PROPERTY=VALUE...: copies the jars that a pom names into lib of the current folder.
maven_jars() {
  local pom=$1
  shift
  mvn --batch-mode --quiet --file "$pom" "${@/#/-D}" dependency:copy-dependencies \
    -DincludeScope=runtime "-DoutputDirectory=$PWD/lib"
}

wait_for_port() { # wait_for_port HOST:PORT PID LOG
  local deadline=$((SECONDS + 90))
  until (exec 3<>"/dev/tcp/${1%:*}/${1##*:}") 2>/dev/null; do
    kill -0 "$2" 2>/dev/null || { tail -n 20 -- "$3" >&2; die "the server ended; its log is $3"; }
    [[ $SECONDS -lt $deadline ]] || die "nothing listens on $1; its log is $3"
    sleep 0.1
  done
}
