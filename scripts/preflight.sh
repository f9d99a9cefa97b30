#!/bin/sh
# Says in one plain message what this machine lacks to run relstate, and fails.
#
# usage: preflight.sh [python]      the Python to look at; python3 unless told
#
# It asks for a Python of at least 3.11 that can make environments, and for the Java that Spark
# will take (JAVA_HOME's where that is set, else the one on PATH) to be at least 17.
set -u

python=${1:-python3}
least_java=17
status=0

complain() {
    printf 'relstate: %s\n' "$1" >&2
    shift
    for line in "$@"; do
        printf '          %s\n' "$line" >&2
    done
    status=1
}

check_python() {
    if ! command -v "$python" >/dev/null 2>&1; then
        complain "no Python: '$python' is not a program here." \
            "Install Python 3.11 or newer, or name one: make ... PYTHON=/path/to/python3.12"
        return
    fi
    found=$("$python" -c 'import sys; print("%d.%d.%d" % sys.version_info[:3])' 2>/dev/null)
    if [ -z "$found" ]; then
        complain "'$python' does not run as Python." \
            "Install Python 3.11 or newer, or name one: make ... PYTHON=/path/to/python3.12"
        return
    fi
    if ! "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then
        complain "Python 3.11 or newer is needed; '$python' is Python $found." \
            "Install a newer one, or name it: make ... PYTHON=/path/to/python3.12"
        return
    fi
    if ! "$python" -c 'import ensurepip, venv' >/dev/null 2>&1; then
        complain "'$python' (Python $found) cannot make environments: venv or ensurepip is missing." \
            "On Debian and Ubuntu: apt-get install python3-venv"
    fi
}

# Prints the major version of a java program; nothing where it is none.
java_major() {
    "$1" -version 2>&1 </dev/null |
        sed -n 's/.*version "\(1\.\)\{0,1\}\([0-9][0-9]*\).*/\2/p' | head -n 1
}

check_java() {
    if [ -n "${JAVA_HOME:-}" ]; then
        java=$JAVA_HOME/bin/java
        origin="JAVA_HOME is '$JAVA_HOME', which Spark takes before PATH"
        remedy="Set JAVA_HOME to a Java $least_java or newer, or unset it to use the java on PATH."
    else
        java=java
        origin="JAVA_HOME is not set, so Spark takes the java on PATH"
        remedy="Install one (Debian, Ubuntu: apt-get install openjdk-17-jre-headless) or set JAVA_HOME."
    fi
    if ! command -v "$java" >/dev/null 2>&1; then
        complain "Spark needs Java $least_java or newer and there is no '$java'." "$origin." "$remedy"
        return
    fi
    found=$(java_major "$java")
    if [ -z "$found" ]; then
        complain "Spark needs Java $least_java or newer and '$java' does not tell its version." \
            "$origin." "$remedy"
    elif [ "$found" -lt "$least_java" ]; then
        complain "Spark needs Java $least_java or newer; '$java' is Java $found." "$origin." "$remedy"
    fi
}

check_python
check_java
exit $status
