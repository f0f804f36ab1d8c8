# shellcheck shell=bash
# What examples/ggml/run and tests/ggml/run share: the sources of the engines through pip, and their builds, both kept in
# build/ggml. To be sourced after .ci/common.sh.

ggml_packages=(g++ cmake ninja-build ccache python3 python3-pip libboost-dev)
ggml_blas_packages=(libopenblas-dev pkg-config) # a second backend, for its scheduler
ggml_dir=$top/build/ggml
ggml_version=0.0.45  # of ggml-python: ggml 0.15.3
llama_version=0.3.36 # of llama-cpp-python: ggml 0.25.3

# sdist NAME VERSION: the sources of a Python package, fetched once.
sdist() {
    local folder=$ggml_dir/${1//-/_}-$2
    [[ -e $folder/PKG-INFO ]] && return
    mkdir -p "$ggml_dir"
    logged "ggml.fetch.$1" python3 -m pip download --no-deps --no-binary "$1" --dest "$ggml_dir" "$1==$2" || return
    tar -xzf "$ggml_dir/${1//-/_}-$2.tar.gz" -C "$ggml_dir"
}

# build_ggml shared|static [OPTION…]: this folder's programs with ggml as shared libraries, or inside them.
build_ggml() {
    local shared=ON blas=OFF
    if [[ $1 != shared ]]; then
        shared=OFF
    elif pkg-config --exists openblas 2>/dev/null; then
        blas=ON
    fi
    sdist ggml-python "$ggml_version" || return
    logged "ggml.$1.configure" cmake -S "$top/examples/ggml" -B "$ggml_dir/$1" -G Ninja -DCMAKE_BUILD_TYPE=Release \
        -DGGML_SOURCE="$ggml_dir/ggml_python-$ggml_version/vendor/ggml" -DBUILD_SHARED_LIBS=$shared \
        -DGGML_BLAS=$blas -DGGML_BLAS_VENDOR=OpenBLAS "${@:2}" || return
    logged "ggml.$1.build" nice ninja -C "$ggml_dir/$1"
}

# build_llama: llama-finetune, unmodified, with its own newer ggml.
build_llama() {
    sdist llama-cpp-python "$llama_version" || return
    logged ggml.llama.configure cmake -S "$ggml_dir/llama_cpp_python-$llama_version/vendor/llama.cpp" \
        -B "$ggml_dir/llama" -G Ninja -DCMAKE_BUILD_TYPE=Release -DBUILD_SHARED_LIBS=ON -DGGML_OPENMP=OFF \
        -DGGML_CCACHE=OFF -DCMAKE_C_COMPILER_LAUNCHER=ccache -DCMAKE_CXX_COMPILER_LAUNCHER=ccache \
        -DCMAKE_POSITION_INDEPENDENT_CODE=ON -DLLAMA_CURL=OFF -DLLAMA_OPENSSL=OFF -DLLAMA_BUILD_TESTS=OFF \
        -DLLAMA_BUILD_SERVER=OFF -DLLAMA_BUILD_TOOLS=OFF -DLLAMA_BUILD_EXAMPLES=ON || return
    logged ggml.llama.build nice ninja -C "$ggml_dir/llama" -j1 llama-finetune
}
