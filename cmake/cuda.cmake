# CUDA is optional: nothing of the simulator needs it. AUTO builds moeplan-device where a toolkit is found: by CUDACXX,
# CUDA_PATH, CUDA_HOME, on PATH, or in the usual places.
set(MOEPLAN_HAVE_CUDA OFF)
if(NOT MOEPLAN_CUDA STREQUAL "OFF")
  set(CMAKE_CUDA_STANDARD 17)  # CMake 3.25 knows no CUDA20 dialect
  set(CMAKE_CUDA_RUNTIME_LIBRARY Static)
  if(NOT DEFINED ENV{CUDACXX} AND NOT CMAKE_CUDA_COMPILER)
    file(GLOB versioned LIST_DIRECTORIES true /usr/local/cuda-* /opt/cuda-*)
    list(SORT versioned COMPARE NATURAL ORDER DESCENDING)
    find_program(MOEPLAN_NVCC nvcc HINTS ENV CUDA_PATH ENV CUDA_HOME PATHS /usr/local/cuda /opt/cuda /usr/lib/nvidia-cuda-toolkit ${versioned}
                 PATH_SUFFIXES bin)
    if(MOEPLAN_NVCC)
      set(ENV{CUDACXX} ${MOEPLAN_NVCC})  # check_language tries it: one that does not work leaves CUDA out
    endif()
  endif()
  if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
    set(CMAKE_CUDA_ARCHITECTURES OFF)  # each target names its own
  endif()
  include(CheckLanguage)
  check_language(CUDA)
  if(CMAKE_CUDA_COMPILER)
    enable_language(CUDA)
    find_package(CUDAToolkit QUIET)
  endif()
  if(CMAKE_CUDA_COMPILER AND TARGET CUDA::cudart_static AND TARGET CUDA::cublasLt)
    set(MOEPLAN_HAVE_CUDA ON)
  elseif(MOEPLAN_CUDA STREQUAL "ON")
    if(CMAKE_CUDA_COMPILER)
      message(FATAL_ERROR "MOEPLAN_CUDA=ON, but the toolkit of ${CMAKE_CUDA_COMPILER} has no cuBLAS or no static runtime")
    endif()
    message(FATAL_ERROR "MOEPLAN_CUDA=ON, but no CUDA compiler was found (looked at CUDACXX, CUDA_PATH, CUDA_HOME, PATH, /usr/local/cuda*, /opt/cuda*)")
  endif()
endif()

# Architectures that this nvcc knows, among those that profiles are of: machine code for each, and PTX of the newest for
# parts to come. Kernels here are portable; the fast products come from the libraries.
if(MOEPLAN_HAVE_CUDA AND NOT MOEPLAN_CUDA_ARCHITECTURES)
  set(wanted 80 90a)
  if(CMAKE_CUDA_COMPILER_VERSION VERSION_GREATER_EQUAL 12.8)
    list(APPEND wanted 100 120)
  endif()
  list(POP_BACK wanted newest)
  list(TRANSFORM wanted APPEND -real)
  set(MOEPLAN_CUDA_ARCHITECTURES ${wanted} ${newest} CACHE STRING "Architectures of moeplan-device, as CMake's CUDA_ARCHITECTURES")
endif()

# NCCL has no package of its own; without it moeplan-device has no command `collectives`.
if(MOEPLAN_HAVE_CUDA)
  find_path(MOEPLAN_NCCL_INCLUDE nccl.h HINTS ENV NCCL_HOME ${CUDAToolkit_INCLUDE_DIRS} PATH_SUFFIXES include)
  find_library(MOEPLAN_NCCL_LIBRARY NAMES nccl libnccl.so.2 HINTS ENV NCCL_HOME ${CUDAToolkit_LIBRARY_DIR} PATH_SUFFIXES lib lib64)
endif()
if(MOEPLAN_HAVE_CUDA)
  message(STATUS "CUDA: ${CMAKE_CUDA_COMPILER} ${CMAKE_CUDA_COMPILER_VERSION} for ${MOEPLAN_CUDA_ARCHITECTURES}, NCCL ${MOEPLAN_NCCL_LIBRARY}: moeplan-device is built")
else()
  message(STATUS "CUDA: not used (MOEPLAN_CUDA=${MOEPLAN_CUDA}): no moeplan-device; nothing else needs it")
endif()
